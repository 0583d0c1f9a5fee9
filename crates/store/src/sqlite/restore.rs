//! After a restore: what other processes hold is of a future that is gone, and must not be taken for the past of this one.

use super::{SqliteStore, now, sql, time};
use crate::{Restored, Result, Topic, row::Fields as _};

/// Above everything given out before the backup, and another number each time the same backup is restored: seconds in the
/// high part, no less than `$2`, chance in the low one. It stays below 2^53, which is as far as a JSON number is exact.
macro_rules! raised {
    ($number:literal) => {
        concat!("max(", $number, " + 1000000, max($1 / 1000000, $2) << 15) + (random() & 32767)")
    };
}

const NEXT_LOG: &str = concat!(
    "UPDATE event_log SET epoch = ",
    raised!("epoch"),
    ", folded_id = coalesce((SELECT max(id) FROM event), 0)"
);
const FORGET_COUNTS: &str = "DELETE FROM state_count";
const COUNT: &str = "
    INSERT INTO state_count (state, count) SELECT state, count(*) FROM domain WHERE removed_at IS NULL GROUP BY state";

const EPOCH: &str = concat!("UPDATE revision SET epoch = ", raised!("epoch"), " RETURNING epoch");
const VOID_CLAIMS: &str = "
    UPDATE domain SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, claim_epoch = claim_epoch + 1, updated_at = $1,
        due_at = CASE WHEN queued_at IS NOT NULL AND order_id IS NULL AND wanted IS NULL AND removing_since IS NULL
                      THEN NULL ELSE $1 END
    WHERE claimed_until IS NOT NULL";
const ORDERS_ANEW: &str = "UPDATE domain SET due_at = $1, updated_at = $1 WHERE order_id IS NOT NULL AND removed_at IS NULL";
const DEPLOY_ANEW: &str = "
    UPDATE deployment SET updated_at = $1, revision = numbered.n + (SELECT number FROM revision)
    FROM (SELECT name, edge_group, row_number() OVER (ORDER BY revision, name, edge_group) AS n FROM deployment) numbered
    WHERE deployment.name = numbered.name AND deployment.edge_group = numbered.edge_group";
const BUMP: &str = "UPDATE revision SET number = number + $1";
const SERVED: &str = "SELECT count(certificate_id) AS n FROM deployment";
const FORGET_SEEN: &str = "DELETE FROM observation";
const DEPLOYING: &str = "
    UPDATE domain SET nudged = 1, due_at = $1, updated_at = $1 WHERE state = 'CertificateDeploying' AND removed_at IS NULL";
/// What was revoked since the backup was made is only known to the CA: it is asked about every certificate, twenty a second.
const ASK_ANEW: &str = "
    UPDATE domain SET due_at = min(coalesce(due_at, $1 + numbered.n * 50000), $1 + numbered.n * 50000), updated_at = $1
    FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM domain
        WHERE state = 'Active' AND removed_at IS NULL AND removing_since IS NULL) numbered
    WHERE domain.id = numbered.id";
/// What is not served yet is asked about as soon as it is.
const ASK_LATER: &str = "
    UPDATE domain SET ask_anew = 1 WHERE certificate_id IS NOT NULL AND removed_at IS NULL AND removing_since IS NULL
        AND state IN ('Initial', 'CertificateDownloaded', 'CertificateDeploying', 'CertificateDeployed', 'CertificateDeploymentFailed')";

/// No term that was given out since the backup may be given to another holder.
const RAISE_TERMS: &str = concat!(
    "UPDATE lease SET term = ",
    raised!("term"),
    ", holder = NULL, incarnation = NULL, beat = 0, ttl_us = 0, since_us = $1,
        expires_us = $1, step_down = 0, successor = NULL"
);

impl SqliteStore {
    /// With numbers made of this second, or a later one.
    pub(super) async fn restore(&self, second: i64) -> Result<Restored> {
        let at = time(now());
        let mut transaction = self.writer.begin("reckon with a restore").await?;
        for statement in [FORGET_COUNTS, COUNT, FORGET_SEEN] {
            transaction.execute(sql(statement)).await?;
        }
        transaction.execute(sql(NEXT_LOG).bind(at).bind(second)).await?;
        transaction.execute(sql(RAISE_TERMS).bind(at).bind(second)).await?;
        transaction.execute(sql(VOID_CLAIMS).bind(at)).await?;
        let orders = transaction.execute(sql(ORDERS_ANEW).bind(at)).await?.rows_affected();
        let epoch = transaction.one(sql(EPOCH).bind(at).bind(second)).await?.number("epoch")?;
        let written = transaction.execute(sql(DEPLOY_ANEW).bind(at)).await?.rows_affected();
        let bump = sql(BUMP).bind(i64::try_from(written).unwrap_or(i64::MAX));
        transaction.execute(bump).await?;
        let deployments = transaction.one(sql(SERVED)).await?.count("n")?;
        transaction.execute(sql(DEPLOYING).bind(at)).await?;
        transaction.execute(sql(ASK_ANEW).bind(at)).await?;
        transaction.execute(sql(ASK_LATER)).await?;
        transaction.commit().await?;
        self.tell(&[Topic::Work, Topic::Deployments, Topic::Events]);
        Ok(Restored { epoch, orders, deployments: u64::from(deployments) })
    }
}
