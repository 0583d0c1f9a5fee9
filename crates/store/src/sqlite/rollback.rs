//! Going back to an earlier certificate: a person's decision, which takes the domain from whoever works on it.

use holdfast_model::{Domain, DomainId, State};
use uuid::Uuid;

use super::{
    SqliteStore, Tx,
    domain::{BY_ID, select_domain},
    edge::{deploy, next_revision},
    event, now, sql, time,
};
use crate::{
    Actor, Certificates as _, Error, Result, Topic,
    certificate::{MAY_ROLL_BACK, rolled_back},
    row::{Fields as _, domain},
};

const LIVE: &str = select_domain!("d.id = $1 AND d.removed_at IS NULL");

/// Only one whose key is still there can be served.
const EARLIER: &str = "
    SELECT c.id, c.sha256 FROM certificate c JOIN domain d ON d.id = c.domain_id
    JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
    WHERE d.id = $1 AND c.id <> d.certificate_id AND c.not_after > $3 AND c.not_before <= $3
      AND ($2 IS NULL OR c.sha256 = $2)
      AND ($2 IS NOT NULL OR c.created_at <= (SELECT created_at FROM certificate WHERE id = d.certificate_id))
    ORDER BY c.created_at DESC, c.id DESC LIMIT 1";

const HOLD: &str = "
    UPDATE certificate SET superseded_at = NULL, held_until = $2 + (not_after - $2) / 2 WHERE id = $1";
const SUPERSEDE: &str = "
    UPDATE certificate SET superseded_at = $3 WHERE domain_id = $1 AND superseded_at IS NULL AND id <> $2";

/// The claim of whoever works on it ends here, and with it the right to commit.
const BACK: &str = "
    UPDATE domain SET state = 'CertificateDeploying', attempt = 0, entered_at = $3, next_attempt_at = $3,
        due_at = $3, queued_at = NULL, failures = 0, failing_since = NULL, error_code = NULL, error_detail = NULL,
        wanted = NULL, wanted_seen = 1, nudged = 0, lapses = 0, certificate_id = $2,
        claimed_by = NULL, incarnation = NULL, claimed_until = NULL, claim_epoch = claim_epoch + 1,
        unseen = 0, version = version + 1, updated_at = $3
    WHERE id = $1";

impl SqliteStore {
    pub(super) async fn roll_back_domain(
        &self,
        id: DomainId,
        to: Option<&str>,
        actor: &Actor,
    ) -> Result<Domain> {
        let mut transaction = self.writer.begin("roll back").await?;
        match back(&mut transaction, id, to, actor).await {
            Ok(domain) => {
                // What cannot be served must not take the place of what is.
                if let Err(error) = self.check_certificate(&domain).await {
                    transaction.abandon().await?;
                    return Err(error);
                }
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

async fn back(
    transaction: &mut Tx,
    id: DomainId,
    to: Option<&str>,
    actor: &Actor,
) -> Result<Domain> {
    let row = transaction.row(sql(LIVE).bind(id.0)).await?;
    let before = domain(row.as_ref().ok_or(Error::NotFound("domain"))?)?;
    if before.removing_since.is_some() || !MAY_ROLL_BACK.contains(&before.state) {
        return Err(Error::NotNow(before.state));
    }
    let at = now();
    let earlier = sql(EARLIER).bind(id.0).bind(to.map(ToOwned::to_owned)).bind(time(at));
    let earlier = transaction.row(earlier).await?.ok_or(Error::NothingToRollBackTo)?;
    let (certificate, sha256): (Uuid, _) = (earlier.id("id")?, earlier.text("sha256")?);
    transaction.execute(sql(HOLD).bind(certificate).bind(time(at))).await?;
    transaction.execute(sql(SUPERSEDE).bind(id.0).bind(certificate).bind(time(at))).await?;
    transaction.execute(sql(BACK).bind(id.0).bind(certificate).bind(time(at))).await?;
    let note = rolled_back(before.certificate.as_ref(), &sha256);
    let line = event::Line {
        from: Some(before.state),
        to: Some(State::CertificateDeploying),
        lasted: at.since(before.entered_at),
        attempt: before.attempt,
        error: Some(&note),
        ..event::Line::of(before.id, &before.name)
    };
    event::tell(transaction, actor, &line).await?;
    let number = next_revision(transaction).await?;
    deploy(transaction, &before, Some(certificate), number).await?;
    domain(&transaction.one(sql(BY_ID).bind(id.0)).await?)
}
