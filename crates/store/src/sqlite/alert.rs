//! Alerts that stand.

use async_trait::async_trait;

use super::{SqliteStore, Tx, event::note, now, sql, time};
use crate::{
    Actor, Alerts, Fence, Result, StandingAlert, Topic,
    alert::{raised, told},
    row::{Fields as _, expiring},
};

const STANDING: &str = "SELECT code, subject, detail FROM alert WHERE code <> 'domain-expiring'";
const RAISE: &str = "
    INSERT INTO alert (code, subject, detail, raised_at) VALUES ($1, $2, $3, $4) ON CONFLICT (code, subject) DO NOTHING";
const CLEAR: &str = "DELETE FROM alert WHERE code = $1 AND subject = $2";

/// Less than a ninth of its life is left. `$1` is the time.
macro_rules! ending {
    () => {
        "c.superseded_at IS NULL AND (c.not_after - (c.not_after - c.not_before) / 9) < $1"
    };
}

const OVER: &str = concat!(
    "DELETE FROM alert WHERE code = 'domain-expiring' AND NOT EXISTS (
        SELECT 1 FROM domain d JOIN certificate c ON c.id = d.certificate_id
        WHERE d.name = alert.subject AND d.removed_at IS NULL AND d.removing_since IS NULL AND ",
    ending!(),
    ")"
);
const UNTOLD: &str = concat!(
    "SELECT d.name, c.not_before, c.not_after FROM certificate c JOIN domain d ON d.id = c.domain_id WHERE ",
    ending!(),
    " AND d.certificate_id = c.id AND d.removed_at IS NULL AND d.removing_since IS NULL
      AND NOT EXISTS (SELECT 1 FROM alert a WHERE a.code = 'domain-expiring' AND a.subject = d.name) LIMIT $2"
);

#[async_trait]
impl Alerts for SqliteStore {
    async fn settle_alerts(
        &self,
        fence: Option<&Fence>,
        actor: &Actor,
        standing: &[StandingAlert],
    ) -> Result<u64> {
        let mut transaction = self.fenced("settle alerts", fence).await?;
        let mut events = raise(&mut transaction, actor, standing).await?;
        for row in transaction.rows(sql(STANDING)).await? {
            let (code, subject) = (row.text("code")?, row.text("subject")?);
            if standing.iter().any(|alert| alert.code == code && alert.subject == subject) {
                continue;
            }
            transaction.execute(sql(CLEAR).bind(code.clone()).bind(subject.clone())).await?;
            let detail = told(&code, &row.text("detail")?);
            note(&mut transaction, actor, "alert-cleared", &subject, &detail).await?;
            events += 1;
        }
        transaction.commit().await?;
        if events > 0 {
            self.tell(&[Topic::Events]);
        }
        Ok(events)
    }

    async fn settle_expiring(
        &self,
        fence: Option<&Fence>,
        actor: &Actor,
        limit: u32,
    ) -> Result<u64> {
        let mut transaction = self.fenced("settle what expires", fence).await?;
        transaction.execute(sql(OVER).bind(time(now()))).await?;
        let untold = sql(UNTOLD).bind(time(now())).bind(i64::from(limit));
        let untold = transaction.rows(untold).await?;
        let untold = untold.iter().map(|row| Ok(expiring(row)?.into()));
        let untold = untold.collect::<Result<Vec<StandingAlert>>>()?;
        let events = raise(&mut transaction, actor, &untold).await?;
        transaction.commit().await?;
        if events > 0 {
            self.tell(&[Topic::Events]);
        }
        Ok(events)
    }
}

/// Raises those that do not stand, each with its event; gives how many.
async fn raise(transaction: &mut Tx, actor: &Actor, alerts: &[StandingAlert]) -> Result<u64> {
    let mut events = 0;
    for alert in alerts {
        let (code, subject) = (alert.code.clone(), alert.subject.clone());
        let raise =
            sql(RAISE).bind(code).bind(subject).bind(alert.detail.clone()).bind(time(now()));
        if transaction.execute(raise).await?.rows_affected() > 0 {
            let (kind, detail) = (raised(&alert.code), told(&alert.code, &alert.detail));
            note(transaction, actor, kind, &alert.subject, &detail).await?;
            events += 1;
        }
    }
    Ok(events)
}
