//! Certificates, with their keys opened.

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{Domain, DomainId, Hostname, Timestamp};
use sqlx::{Sqlite, sqlite::SqliteRow};

use super::{SqliteStore, sql, time};
use crate::{
    Actor, Bundle, Certificates, Result,
    pool::Statement,
    query::certificate::{BY_SHA256, DEPLOYED, DEPLOYED_IN, HELD, MADE_SINCE, NEWEST},
    row::{Fields as _, Unopened},
    seal::Place,
};

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

    async fn certificates_since(
        &self,
        domain: DomainId,
        since: Timestamp,
        limit: u32,
    ) -> Result<u32> {
        let statement = sql(MADE_SINCE).bind(domain.0).bind(time(since)).bind(i64::from(limit));
        self.readers.one("count certificates", statement).await?.count("made")
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
        Ok(Some((unopened.with_key(key)?, row)))
    }
}
