//! Certificates, with their keys opened.

use async_trait::async_trait;
use holdfast_model::{DomainId, Hostname};
use sqlx::Sqlite;

use super::{SqliteStore, sql};
use crate::{Bundle, Certificates, Result, pool::Statement, row::Unopened, seal::Place};

const NEWEST: &str = "
    SELECT c.id, c.domain_id, c.chain_pem, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory, d.name, s.value
    FROM domain d JOIN certificate c ON c.id = d.certificate_id JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
    WHERE d.id = $1";

/// Where a name is deployed to several groups, as in the moment of a change of groups, the newest counts.
const DEPLOYED: &str = "
    SELECT c.id, c.domain_id, c.chain_pem, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory, p.name, s.value
    FROM deployment p JOIN certificate c ON c.id = p.certificate_id JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
    WHERE p.name = $1 ORDER BY p.revision DESC LIMIT 1";

#[async_trait]
impl Certificates for SqliteStore {
    async fn bundle(&self, domain: DomainId) -> Result<Option<Bundle>> {
        self.opened(sql(NEWEST).bind(domain.0)).await
    }

    async fn bundle_named(&self, name: &Hostname) -> Result<Option<Bundle>> {
        self.opened(sql(DEPLOYED).bind(name.as_str())).await
    }
}

impl SqliteStore {
    async fn opened(&self, statement: Statement<Sqlite>) -> Result<Option<Bundle>> {
        let row = self.readers.row("read a certificate", statement).await?;
        let Some(row) = row else { return Ok(None) };
        let unopened = Unopened::read(&row)?;
        let key = self.unseal(Place::certificate(unopened.id), &unopened.value)?;
        Ok(Some(unopened.with_key(key)))
    }
}
