//! Going back to an earlier certificate: a person's decision, which takes the domain from whoever works on it.

use holdfast_model::{Domain, DomainId};
use sqlx::Postgres;
use uuid::Uuid;

use super::{PostgresStore, TRIES, domain::select_domain, is_collision, sql};
use crate::{
    Actor, Certificates as _, Error, Result, Topic,
    certificate::{MAY_ROLL_BACK, rolled_back},
    pool::Transaction,
    row::{Fields as _, domain},
};

const READ: &str = select_domain!("d.id = $1");
const LOCK: &str = select_domain!("d.id = $1 AND d.removed_at IS NULL FOR UPDATE OF d");

/// Only one whose key is still there can be served.
const EARLIER: &str = "
    SELECT c.id, c.sha256 FROM certificate c JOIN domain d ON d.id = c.domain_id
    JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
    WHERE d.id = $1 AND c.id <> d.certificate_id AND c.not_after > clock_timestamp() AND c.not_before <= clock_timestamp()
      AND ($2::text IS NULL OR c.sha256 = $2)
      AND ($2::text IS NOT NULL OR c.created_at <= (SELECT created_at FROM certificate WHERE id = d.certificate_id))
    ORDER BY c.created_at DESC, c.id DESC LIMIT 1";

const HOLD: &str = "
    UPDATE certificate SET superseded_at = NULL, held_until = clock_timestamp() + (not_after - clock_timestamp()) / 2 WHERE id = $1";
const SUPERSEDE: &str = "
    UPDATE certificate SET superseded_at = clock_timestamp() WHERE domain_id = $1 AND superseded_at IS NULL AND id <> $2";

/// The claim of whoever works on it ends here, and with it the right to commit.
const BACK: &str = "
    WITH before AS (SELECT * FROM domain WHERE id = $1),
    moved AS (
        UPDATE domain SET state = 'CertificateDeploying', attempt = 0, entered_at = clock_timestamp(), next_attempt_at = clock_timestamp(),
            due_at = clock_timestamp(), queued_at = NULL, failures = 0, failing_since = NULL, error_code = NULL, error_detail = NULL,
            wanted = NULL, wanted_seen = true, nudged = false, lapses = 0, certificate_id = $2,
            claimed_by = NULL, incarnation = NULL, claimed_until = NULL, claim_epoch = claim_epoch + 1,
            unseen = 0, version = version + 1, updated_at = clock_timestamp()
        WHERE id = $1 RETURNING *),
    told AS (
        INSERT INTO event (at, instance, actor, kind, domain_id, subject, from_state, to_state, duration_ms, attempt, error_code, detail)
        SELECT m.updated_at, $3, $4, 'transition', m.id, m.name, b.state, m.state,
               greatest(0, extract(epoch FROM m.updated_at - b.entered_at) * 1000)::bigint, b.attempt, $5, $6
        FROM moved m, before b),
    bumped AS (UPDATE revision SET number = number + 1 FROM moved RETURNING number)
    INSERT INTO deployment (name, edge_group, domain_id, certificate_id, revision, updated_at)
    SELECT m.name, m.edge_group, m.id, m.certificate_id, b.number, clock_timestamp() FROM moved m, bumped b
    ON CONFLICT (name, edge_group) DO UPDATE SET domain_id = EXCLUDED.domain_id,
        certificate_id = EXCLUDED.certificate_id, revision = EXCLUDED.revision, updated_at = EXCLUDED.updated_at";

impl PostgresStore {
    pub(super) async fn roll_back_domain(
        &self,
        id: DomainId,
        to: Option<&str>,
        actor: &Actor,
    ) -> Result<Domain> {
        let mut tries = 0;
        loop {
            let mut transaction = self.pool.begin("roll back").await?;
            match back(&mut transaction, id, to, actor).await {
                Ok(domain) => {
                    // What cannot be served must not take the place of what is.
                    if let Err(error) = self.check_certificate(&domain).await {
                        transaction.abandon().await?;
                        return Err(error);
                    }
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

async fn back(
    transaction: &mut Transaction<'_, Postgres>,
    id: DomainId,
    to: Option<&str>,
    actor: &Actor,
) -> Result<Domain> {
    let row = transaction.row(sql(LOCK).bind(id.0)).await?;
    let before = domain(row.as_ref().ok_or(Error::NotFound("domain"))?)?;
    if before.removing_since.is_some() || !MAY_ROLL_BACK.contains(&before.state) {
        return Err(Error::NotNow(before.state));
    }
    let earlier = sql(EARLIER).bind(id.0).bind(to.map(ToOwned::to_owned));
    let earlier = transaction.row(earlier).await?.ok_or(Error::NothingToRollBackTo)?;
    let (certificate, sha256): (Uuid, _) = (earlier.id("id")?, earlier.text("sha256")?);
    let note = rolled_back(before.certificate.as_ref(), &sha256);
    transaction.execute(sql(HOLD).bind(certificate)).await?;
    transaction.execute(sql(SUPERSEDE).bind(id.0).bind(certificate)).await?;
    let back = sql(BACK)
        .bind(id.0)
        .bind(certificate)
        .bind(&*actor.instance)
        .bind(&*actor.name)
        .bind(note.code.to_string())
        .bind(note.detail);
    transaction.execute(back).await?;
    domain(&transaction.one(sql(READ).bind(id.0)).await?)
}
