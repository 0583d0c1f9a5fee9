//! Alerts that stand.

use async_trait::async_trait;

use super::{PostgresStore, event::note, sql};
use crate::{
    Actor, Alerts, Fence, Result, StandingAlert, Topic,
    alert::{DOMAIN_EXPIRING, raised, told},
    row::Fields as _,
};

/// The key decides who raises it: of two that come at once, one gets a row back.
const RAISE: &str = "
    INSERT INTO alert (code, subject, detail, raised_at)
    SELECT DISTINCT ON (code, subject) code, subject, detail, clock_timestamp() FROM unnest($1::text[], $2::text[], $3::text[]) AS n (code, subject, detail)
    ORDER BY code, subject ON CONFLICT (code, subject) DO NOTHING RETURNING code, subject, detail";
const CLEAR: &str = "
    DELETE FROM alert a WHERE NOT EXISTS (
        SELECT 1 FROM unnest($1::text[], $2::text[]) AS n (code, subject) WHERE n.code = a.code AND n.subject = a.subject)
    RETURNING code, subject, detail";

#[async_trait]
impl Alerts for PostgresStore {
    async fn settle_alerts(
        &self,
        fence: Option<&Fence>,
        actor: &Actor,
        standing: &[StandingAlert],
    ) -> Result<u64> {
        let texts = |of: fn(&StandingAlert) -> &String| {
            standing.iter().map(of).cloned().collect::<Vec<_>>()
        };
        let (codes, subjects) = (texts(|alert| &alert.code), texts(|alert| &alert.subject));
        let raise = sql(RAISE)
            .bind(codes.clone())
            .bind(subjects.clone())
            .bind(texts(|alert| &alert.detail));
        let mut transaction = self.fenced("settle alerts", fence).await?;
        let mut events = 0;
        for row in transaction.rows(raise).await? {
            let (code, subject) = (row.text("code")?, row.text("subject")?);
            let detail = told(&code, &row.text("detail")?);
            note(&mut transaction, actor, raised(&code), &subject, &detail).await?;
            events += 1;
        }
        for row in transaction.rows(sql(CLEAR).bind(codes).bind(subjects)).await? {
            let (code, subject) = (row.text("code")?, row.text("subject")?);
            if code != DOMAIN_EXPIRING {
                let detail = told(&code, &row.text("detail")?);
                note(&mut transaction, actor, "alert-cleared", &subject, &detail).await?;
                events += 1;
            }
        }
        transaction.commit().await?;
        if events > 0 {
            self.herald.tell(&[Topic::Events]);
        }
        Ok(events)
    }
}
