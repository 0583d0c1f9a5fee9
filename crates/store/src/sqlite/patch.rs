//! Changing what people may change of a domain. The version rises, and a worker that holds the domain goes on undisturbed:
//! it writes none of these.

use holdfast_model::{Domain, DomainId};

use super::{
    SqliteStore, Tx,
    domain::{BY_ID, due_unless_claimed, select_domain},
    edge::{deploy, next_revision},
    event, now, sql, time,
};
use crate::{
    Actor, DomainPatch, Error, Holder, Result, Topic,
    conflict::Original,
    row::{Fields as _, domain},
};

const LIVE: &str = select_domain!("d.id = $1 AND d.removed_at IS NULL");
const HOLDER: &str =
    "SELECT resource, created_at FROM claim WHERE resource = $1 AND released_at IS NULL";
const RESOURCE: &str =
    "UPDATE claim SET resource = $2 WHERE domain_id = $1 AND released_at IS NULL";
const PATCH: &str = "
    UPDATE domain SET tenant = $2, resource = $3, edge_group = $4, labels = $5, original = coalesce(original, $6),
        version = version + 1, unseen = unseen + 1, updated_at = $7
    WHERE id = $1";
const SERVED: &str = "
    SELECT certificate_id FROM deployment INDEXED BY deployment_domain
    WHERE domain_id = $1 AND edge_group = $2 AND certificate_id IS NOT NULL";
const NUDGE: &str = concat!(
    "UPDATE domain SET nudged = 1, ",
    due_unless_claimed!(),
    " WHERE id = $1 AND state = 'CertificateDeploying'"
);

impl SqliteStore {
    pub(super) async fn patch_domain(
        &self,
        id: DomainId,
        expected: Option<i64>,
        patch: &DomainPatch,
        actor: &Actor,
    ) -> Result<Domain> {
        let mut transaction = self.writer.begin("change a domain").await?;
        match change(&mut transaction, id, expected, patch, actor).await {
            Ok(domain) => {
                transaction.commit().await?;
                self.tell(&[Topic::Work, Topic::Deployments, Topic::Events]);
                Ok(domain)
            }
            Err(error) => {
                transaction.abandon().await?;
                Err(error)
            }
        }
    }
}

async fn change(
    transaction: &mut Tx,
    id: DomainId,
    expected: Option<i64>,
    patch: &DomainPatch,
    actor: &Actor,
) -> Result<Domain> {
    let row = transaction.row(sql(LIVE).bind(id.0)).await?;
    let before = domain(row.as_ref().ok_or(Error::NotFound("domain"))?)?;
    if let Some(expected) = expected.filter(|expected| *expected != before.version) {
        return Err(Error::VersionMismatch { expected, seen: before.version });
    }
    let after = patch.applied_to(&before);
    if after.resource != before.resource {
        take_resource(transaction, &after).await?;
    }
    write(transaction, &before, &after).await?;
    if after.edge_group != before.edge_group {
        regroup(transaction, &before, &after).await?;
    }
    event::note(transaction, actor, "domain-changed", before.name.as_str(), "").await?;
    domain(&transaction.one(sql(BY_ID).bind(id.0)).await?)
}

async fn take_resource(transaction: &mut Tx, after: &Domain) -> Result<()> {
    let resource = after.resource.as_str();
    if let Some(row) = transaction.row(sql(HOLDER).bind(resource)).await? {
        let holder = Holder { resource: row.text("resource")?, since: row.at("created_at")? };
        return Err(Error::ResourceInUse(holder));
    }
    transaction.execute(sql(RESOURCE).bind(after.id.0).bind(resource)).await?;
    Ok(())
}

async fn write(transaction: &mut Tx, before: &Domain, after: &Domain) -> Result<()> {
    let statement = sql(PATCH)
        .bind(after.id.0)
        .bind(after.tenant.as_deref())
        .bind(after.resource.as_str())
        .bind(after.edge_group.as_str())
        .bind(serde_json::to_string(&after.labels).unwrap_or_default())
        .bind(Original::of(before).to_text())
        .bind(time(now()));
    transaction.execute(statement).await?;
    Ok(())
}

/// The old group stops serving it, the new one begins; what waits to be seen is looked at anew.
async fn regroup(transaction: &mut Tx, before: &Domain, after: &Domain) -> Result<()> {
    let served = sql(SERVED).bind(after.id.0).bind(before.edge_group.as_str());
    if let Some(row) = transaction.row(served).await? {
        let (certificate, number) = (row.id("certificate_id")?, next_revision(transaction).await?);
        deploy(transaction, before, None, number).await?;
        deploy(transaction, after, Some(certificate), number).await?;
    }
    transaction.execute(sql(NUDGE).bind(after.id.0).bind(time(now()))).await?;
    Ok(())
}
