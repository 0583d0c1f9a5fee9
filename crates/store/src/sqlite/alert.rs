//! Alerts that stand.

use async_trait::async_trait;

use super::{SqliteStore, event::note, now, sql, time};
use crate::{
    Actor, Alerts, Fence, Result, StandingAlert, Topic,
    alert::{DOMAIN_EXPIRING, raised, told},
    row::Fields as _,
};

const STANDING: &str = "SELECT code, subject, detail FROM alert";
const RAISE: &str = "
    INSERT INTO alert (code, subject, detail, raised_at) VALUES ($1, $2, $3, $4) ON CONFLICT (code, subject) DO NOTHING";
const CLEAR: &str = "DELETE FROM alert WHERE code = $1 AND subject = $2";

#[async_trait]
impl Alerts for SqliteStore {
    async fn settle_alerts(
        &self,
        fence: Option<&Fence>,
        actor: &Actor,
        standing: &[StandingAlert],
    ) -> Result<u64> {
        let mut transaction = self.fenced("settle alerts", fence).await?;
        let mut events = 0;
        for alert in standing {
            let (code, subject) = (alert.code.clone(), alert.subject.clone());
            let raise =
                sql(RAISE).bind(code).bind(subject).bind(alert.detail.clone()).bind(time(now()));
            if transaction.execute(raise).await?.rows_affected() > 0 {
                let (kind, detail) = (raised(&alert.code), told(&alert.code, &alert.detail));
                note(&mut transaction, actor, kind, &alert.subject, &detail).await?;
                events += 1;
            }
        }
        for row in transaction.rows(sql(STANDING)).await? {
            let (code, subject) = (row.text("code")?, row.text("subject")?);
            if standing.iter().any(|alert| alert.code == code && alert.subject == subject) {
                continue;
            }
            transaction.execute(sql(CLEAR).bind(code.clone()).bind(subject.clone())).await?;
            if code != DOMAIN_EXPIRING {
                let detail = told(&code, &row.text("detail")?);
                note(&mut transaction, actor, "alert-cleared", &subject, &detail).await?;
                events += 1;
            }
        }
        transaction.commit().await?;
        if events > 0 {
            self.tell(&[Topic::Events]);
        }
        Ok(events)
    }
}
