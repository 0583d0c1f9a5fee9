//! Changing what people may change of a domain. The version rises, and a worker that holds the domain goes on undisturbed:
//! it writes none of these.

use holdfast_model::{Domain, DomainId};
use sqlx::Postgres;

use super::{
    PostgresStore, TRIES,
    domain::{due_unless_claimed, select_domain},
    is_collision, sql,
};
use crate::{
    Actor, DomainPatch, Error, Holder, Result, Topic,
    conflict::Original,
    pool::Transaction,
    row::{Fields as _, domain},
};

const READ: &str = select_domain!("d.id = $1");
const LOCK: &str = select_domain!("d.id = $1 AND d.removed_at IS NULL FOR UPDATE OF d");

const RESOURCE: &str = "UPDATE claim k SET resource = $2 WHERE k.domain_id = $1 AND k.released_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM claim o WHERE o.resource = $2 AND o.released_at IS NULL AND o.id <> k.id)";
const HOLDER: &str =
    "SELECT resource, created_at FROM claim WHERE resource = $1 AND released_at IS NULL";

const PATCH: &str = "
    UPDATE domain SET tenant = $2, resource = $3, edge_group = $4, labels = $5, original = coalesce(original, $6),
        version = version + 1, unseen = unseen + 1, updated_at = clock_timestamp()
    WHERE id = $1";

/// The old group stops serving it, the new one begins; what waits to be seen is looked at anew.
const REGROUP: &str = concat!(
    "WITH served AS (SELECT name, certificate_id FROM deployment
        WHERE domain_id = $1 AND edge_group = $2 AND certificate_id IS NOT NULL),
    bumped AS (UPDATE revision SET number = number + 1 FROM served RETURNING number),
    withdrawn AS (UPDATE deployment p SET certificate_id = NULL, revision = b.number, updated_at = clock_timestamp()
        FROM served s, bumped b WHERE p.name = s.name AND p.edge_group = $2),
    nudged AS (UPDATE domain SET nudged = true, ",
    due_unless_claimed!(),
    " WHERE id = $1 AND state = 'CertificateDeploying')
    INSERT INTO deployment (name, edge_group, domain_id, certificate_id, revision, updated_at)
    SELECT s.name, $3, $1, s.certificate_id, b.number, clock_timestamp() FROM served s, bumped b
    ON CONFLICT (name, edge_group) DO UPDATE SET domain_id = EXCLUDED.domain_id,
        certificate_id = EXCLUDED.certificate_id, revision = EXCLUDED.revision, updated_at = EXCLUDED.updated_at"
);

impl PostgresStore {
    pub(super) async fn patch_domain(
        &self,
        id: DomainId,
        expected: Option<i64>,
        patch: &DomainPatch,
        actor: &Actor,
    ) -> Result<Domain> {
        let mut tries = 0;
        loop {
            let mut transaction = self.pool.begin("change a domain").await?;
            match change(&mut transaction, id, expected, patch, actor).await {
                Ok(domain) => {
                    transaction.commit().await?;
                    self.herald.tell(&[Topic::Work, Topic::Deployments, Topic::Events]);
                    return Ok(domain);
                }
                Err(error) if is_collision(&error) && tries < TRIES => tries += 1,
                Err(error) => {
                    transaction.abandon().await?;
                    return Err(error);
                }
            }
        }
    }
}

async fn change(
    transaction: &mut Transaction<'_, Postgres>,
    id: DomainId,
    expected: Option<i64>,
    patch: &DomainPatch,
    actor: &Actor,
) -> Result<Domain> {
    let row = transaction.row(sql(LOCK).bind(id.0)).await?;
    let before = domain(row.as_ref().ok_or(Error::NotFound("domain"))?)?;
    if let Some(expected) = expected.filter(|expected| *expected != before.version) {
        return Err(Error::VersionMismatch { expected, seen: before.version });
    }
    let after = patch.applied_to(&before);
    if after.resource != before.resource {
        take_resource(transaction, &after).await?;
    }
    write(transaction, &before, &after).await?;
    super::event::note(transaction, actor, "domain-changed", before.name.as_str(), "").await?;
    domain(&transaction.one(sql(READ).bind(id.0)).await?)
}

async fn take_resource(transaction: &mut Transaction<'_, Postgres>, after: &Domain) -> Result<()> {
    let resource = after.resource.as_str();
    let taken = transaction.execute(sql(RESOURCE).bind(after.id.0).bind(resource)).await?;
    if taken.rows_affected() > 0 {
        return Ok(());
    }
    let Some(row) = transaction.row(sql(HOLDER).bind(resource)).await? else {
        return Err(Error::HolderVanished);
    };
    let holder = Holder { resource: row.text("resource")?, since: row.at("created_at")? };
    Err(Error::ResourceInUse(holder))
}

async fn write(
    transaction: &mut Transaction<'_, Postgres>,
    before: &Domain,
    after: &Domain,
) -> Result<()> {
    let statement = sql(PATCH)
        .bind(after.id.0)
        .bind(after.tenant.as_deref())
        .bind(after.resource.as_str())
        .bind(after.edge_group.as_str())
        .bind(serde_json::to_string(&after.labels).unwrap_or_default())
        .bind(Original::of(before).to_text());
    transaction.execute(statement).await?;
    if after.edge_group != before.edge_group {
        let groups = sql(REGROUP)
            .bind(after.id.0)
            .bind(before.edge_group.as_str())
            .bind(after.edge_group.as_str());
        transaction.execute(groups).await?;
    }
    Ok(())
}
