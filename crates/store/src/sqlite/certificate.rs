//! Certificates, with their keys opened.

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{Domain, DomainId, Hostname, Timestamp};
use sqlx::{Sqlite, sqlite::SqliteRow};

use super::{SqliteStore, sql};
use crate::{
    Actor, Bundle, Certificates, Result,
    pool::Statement,
    row::{Fields as _, Unopened},
    seal::Place,
};

const NEWEST: &str = "
    SELECT c.id, c.domain_id, c.chain_pem, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory, d.name, s.value
    FROM domain d JOIN certificate c ON c.id = d.certificate_id JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
    WHERE d.id = $1";

/// Where a name is deployed to several groups, as in the moment of a change of groups, the newest counts.
const DEPLOYED: &str = "
    SELECT c.id, c.domain_id, c.chain_pem, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory, p.name, s.value
    FROM deployment p JOIN certificate c ON c.id = p.certificate_id JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
    WHERE p.name = $1 ORDER BY p.revision DESC LIMIT 1";

const DEPLOYED_IN: &str = "
    SELECT c.id, c.domain_id, c.chain_pem, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory, p.name, s.value
    FROM deployment p JOIN certificate c ON c.id = p.certificate_id JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
    WHERE p.name = $1 AND p.edge_group = $2";

const BY_SHA256: &str = "
    SELECT c.id, c.domain_id, c.chain_pem, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory, d.name, s.value,
        d.edge_group
    FROM certificate c JOIN domain d ON d.id = c.domain_id AND d.removed_at IS NULL
    JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
    WHERE c.sha256 = $1
    ORDER BY coalesce(d.id = $2, false) DESC, coalesce(d.edge_group = $3, false) DESC, c.id DESC LIMIT 1";

const HELD: &str = "
    SELECT c.held_until FROM domain d JOIN certificate c ON c.id = d.certificate_id WHERE d.id = $1";

#[async_trait]
impl Certificates for SqliteStore {
    async fn bundle(&self, domain: DomainId) -> Result<Option<Bundle>> {
        Ok(self.opened(sql(NEWEST).bind(domain.0)).await?.map(|(bundle, _)| bundle))
    }

    async fn bundle_named(&self, name: &Hostname) -> Result<Option<Bundle>> {
        let deployed = sql(DEPLOYED).bind(name.as_str());
        Ok(self.opened(deployed).await?.map(|(bundle, _)| bundle))
    }

    async fn bundle_in(&self, group: &str, name: &Hostname) -> Result<Option<Bundle>> {
        let deployed = sql(DEPLOYED_IN).bind(name.as_str()).bind(group);
        Ok(self.opened(deployed).await?.map(|(bundle, _)| bundle))
    }

    async fn bundle_by_sha256(
        &self,
        sha256: &str,
        group: Option<&str>,
        domain: Option<DomainId>,
    ) -> Result<Option<(Bundle, String)>> {
        let one = sql(BY_SHA256).bind(sha256).bind(domain.map(|id| id.0)).bind(group);
        let Some((bundle, row)) = self.opened(one).await? else { return Ok(None) };
        Ok(Some((bundle, row.text("edge_group")?)))
    }

    async fn roll_back(&self, domain: DomainId, to: Option<&str>, actor: &Actor) -> Result<Domain> {
        around(Point::STORE_DEPLOY, self.roll_back_domain(domain, to, actor)).await
    }

    async fn held_until(&self, domain: DomainId) -> Result<Option<Timestamp>> {
        let row = self.readers.row("read a hold", sql(HELD).bind(domain.0)).await?;
        Ok(row.map(|row| row.maybe_at("held_until")).transpose()?.flatten())
    }
}

impl SqliteStore {
    async fn opened(&self, statement: Statement<Sqlite>) -> Result<Option<(Bundle, SqliteRow)>> {
        let row = self.readers.row("read a certificate", statement).await?;
        let Some(row) = row else { return Ok(None) };
        let unopened = Unopened::read(&row)?;
        let key = self.unseal(Place::certificate(unopened.id), &unopened.value)?;
        Ok(Some((unopened.with_key(key), row)))
    }
}
