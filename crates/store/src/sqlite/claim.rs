//! Claims: a resource, and perhaps a name, for one orchestration.

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::Hostname;
use uuid::Uuid;

use super::{SqliteStore, add::LOOK, now, sql, time};
use crate::{
    Claim, ClaimRequest, Claims, Error, Holder, Result,
    conflict::{Standing, judge_claim},
    row::claim,
};

const TAKE: &str = "
    INSERT INTO claim (id, resource, name, orchestration_id, created_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT DO NOTHING
    RETURNING resource, name, orchestration_id, domain_id, created_at, released_at";

/// The live one, else the latest that was given back; each has an index of its own.
const ON: &str = "
    SELECT resource, name, orchestration_id, domain_id, created_at, released_at FROM claim
    WHERE resource = $1 AND released_at IS NULL
    UNION ALL
    SELECT * FROM (SELECT resource, name, orchestration_id, domain_id, created_at, released_at FROM claim
        WHERE resource = $1 AND released_at IS NOT NULL ORDER BY released_at DESC LIMIT 1) latest
    LIMIT 1";

const RELEASE: &str = "
    UPDATE claim SET released_at = $3
    WHERE resource = $1 AND orchestration_id = $2 AND released_at IS NULL AND domain_id IS NULL";

const OWN: &str = "
    SELECT resource, name, orchestration_id, domain_id, created_at, released_at FROM claim
    WHERE resource = $1 AND orchestration_id = $2";

#[async_trait]
impl Claims for SqliteStore {
    async fn claim_resource(&self, request: &ClaimRequest) -> Result<(Claim, bool)> {
        around(Point::STORE_ADD_DOMAIN, self.take_claim(request)).await
    }

    async fn claim_on(&self, resource: &str) -> Result<Option<Claim>> {
        let row = self.readers.row("read a claim", sql(ON).bind(resource)).await?;
        row.as_ref().map(claim).transpose()
    }

    async fn release_resource(&self, resource: &str, orchestration_id: &str) -> Result<Claim> {
        let release = sql(RELEASE).bind(resource).bind(orchestration_id).bind(time(now()));
        let release = self.writer.execute("give a claim back", release);
        around(Point::STORE_RELEASE_DOMAIN, release).await?;
        let own = sql(OWN).bind(resource).bind(orchestration_id);
        let own = self.readers.row("read a claim", own).await?;
        match own.as_ref().map(claim).transpose()? {
            Some(Claim { released_at: None, domain_id: Some(domain), resource, .. }) => {
                Err(Error::ClaimInUse { resource, domain: domain.to_string() })
            }
            Some(claim) => Ok(claim),
            None => Err(self.not_theirs(resource).await?),
        }
    }
}

impl SqliteStore {
    async fn take_claim(&self, request: &ClaimRequest) -> Result<(Claim, bool)> {
        let mut transaction = self.writer.begin("claim a resource").await?;
        let name = request.name.as_ref().map(Hostname::as_str);
        let take = sql(TAKE)
            .bind(Uuid::now_v7())
            .bind(request.resource.as_str())
            .bind(name)
            .bind(request.orchestration_id.as_str())
            .bind(time(now()));
        if let Some(row) = transaction.row(take).await? {
            transaction.commit().await?;
            return Ok((claim(&row)?, true));
        }
        let look = sql(LOOK)
            .bind(request.orchestration_id.as_str())
            .bind(name)
            .bind(request.resource.as_str());
        let rows = transaction.rows(look).await?;
        transaction.abandon().await?;
        let found = rows.iter().map(Standing::read).collect::<Result<Vec<_>>>()?;
        let own = judge_claim(request, &found)?.ok_or(Error::HolderVanished)?;
        Ok((own, false))
    }

    async fn not_theirs(&self, resource: &str) -> Result<Error> {
        Ok(match self.claim_on(resource).await? {
            Some(claim) if claim.released_at.is_none() => {
                Error::ResourceInUse(Holder { resource: claim.resource, since: claim.created_at })
            }
            _ => Error::NotFound("claim"),
        })
    }
}
