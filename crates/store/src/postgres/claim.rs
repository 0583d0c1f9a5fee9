//! Claims: a resource, and perhaps a name, for one orchestration.

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::Hostname;
use uuid::Uuid;

use super::{PostgresStore, TRIES, sql};
use crate::{
    Claim, ClaimRequest, Claims, Error, Holder, Result,
    conflict::{Standing, judge_claim, standing_columns},
    row::{Fields as _, claim},
};

const TAKE: &str = "
    INSERT INTO claim (id, resource, name, orchestration_id, created_at) VALUES ($1, $2, $3, $4, clock_timestamp())
    ON CONFLICT DO NOTHING
    RETURNING resource, name, orchestration_id, domain_id, created_at, released_at";

const LOOK: &str = concat!(
    "SELECT ",
    standing_columns!(),
    " FROM (SELECT * FROM claim WHERE orchestration_id = $1
          UNION SELECT * FROM claim WHERE released_at IS NULL AND name = $2
          UNION SELECT * FROM claim WHERE released_at IS NULL AND resource = $3) k
    LEFT JOIN domain d ON d.id = k.domain_id LEFT JOIN certificate c ON c.id = d.certificate_id"
);

/// The live one, else the latest that was given back; each has an index of its own.
const ON: &str = "
    SELECT resource, name, orchestration_id, domain_id, created_at, released_at FROM claim
    WHERE resource = $1 AND released_at IS NULL
    UNION ALL
    SELECT * FROM (SELECT resource, name, orchestration_id, domain_id, created_at, released_at FROM claim
        WHERE resource = $1 AND released_at IS NOT NULL ORDER BY released_at DESC LIMIT 1) latest
    LIMIT 1";

const RELEASE: &str = "
    UPDATE claim SET released_at = clock_timestamp()
    WHERE resource = $1 AND orchestration_id = $2 AND released_at IS NULL AND domain_id IS NULL";

const OWN: &str = "
    SELECT resource, name, orchestration_id, domain_id, created_at, released_at FROM claim
    WHERE resource = $1 AND orchestration_id = $2";

#[async_trait]
impl Claims for PostgresStore {
    async fn claim_resource(&self, request: &ClaimRequest) -> Result<(Claim, bool)> {
        around(Point::STORE_ADD_DOMAIN, self.take_claim(request)).await
    }

    async fn claim_on(&self, resource: &str) -> Result<Option<Claim>> {
        let row = self.pool.row("read a claim", sql(ON).bind(resource)).await?;
        row.as_ref().map(claim).transpose()
    }

    async fn release_resource(&self, resource: &str, orchestration_id: &str) -> Result<Claim> {
        let release = sql(RELEASE).bind(resource).bind(orchestration_id);
        around(Point::STORE_RELEASE_DOMAIN, self.pool.execute("give a claim back", release))
            .await?;
        let own = sql(OWN).bind(resource).bind(orchestration_id);
        match self.pool.row("read a claim", own).await? {
            Some(row) => released(claim(&row)?),
            None => Err(self.not_theirs(resource).await?),
        }
    }
}

/// A claim after its release was asked for: released, or kept by the domain that lives on it.
fn released(claim: Claim) -> Result<Claim> {
    match (claim.released_at, claim.domain_id) {
        (None, Some(domain)) => {
            Err(Error::ClaimInUse { resource: claim.resource, domain: domain.to_string() })
        }
        // Not released and without a domain: it came this moment, after the release had found nothing.
        (None, None) => Err(Error::HolderVanished),
        (Some(_), _) => Ok(claim),
    }
}

impl PostgresStore {
    async fn take_claim(&self, request: &ClaimRequest) -> Result<(Claim, bool)> {
        let name = request.name.as_ref().map(Hostname::as_str);
        for _ in 0..TRIES {
            let take = sql(TAKE)
                .bind(Uuid::now_v7())
                .bind(request.resource.as_str())
                .bind(name)
                .bind(request.orchestration_id.as_str());
            if let Some(row) = self.pool.row("claim a resource", take).await? {
                return Ok((claim(&row)?, true));
            }
            let look = sql(LOOK)
                .bind(request.orchestration_id.as_str())
                .bind(name)
                .bind(request.resource.as_str());
            let rows = self.pool.rows("look for conflicts", look).await?;
            let found = rows.iter().map(Standing::read).collect::<Result<Vec<_>>>()?;
            if let Some(own) = judge_claim(request, &found)? {
                return Ok((own, false));
            }
        }
        Err(Error::HolderVanished)
    }

    async fn not_theirs(&self, resource: &str) -> Result<Error> {
        let row = self.pool.row("read a claim", sql(ON).bind(resource)).await?;
        let live = row.filter(|row| row.maybe_at("released_at").is_ok_and(|at| at.is_none()));
        Ok(match live {
            Some(row) => Error::ResourceInUse(Holder {
                resource: row.text("resource")?,
                since: row.at("created_at")?,
            }),
            None => Error::NotFound("claim"),
        })
    }
}
