//! Alerts that stand.

use async_trait::async_trait;
use sqlx::Postgres;

use super::{PostgresStore, event::note, sql};
use crate::{
    Actor, Alerts, Fence, Result, StandingAlert, Topic,
    alert::{raised, told},
    pool::Transaction,
    row::{Fields as _, expiring},
};

/// The key decides who raises it: of two that come at once, one gets a row back.
const RAISE: &str = "
    INSERT INTO alert (code, subject, detail, raised_at)
    SELECT DISTINCT ON (code, subject) code, subject, detail, clock_timestamp() FROM unnest($1::text[], $2::text[], $3::text[]) AS n (code, subject, detail)
    ORDER BY code, subject ON CONFLICT (code, subject) DO NOTHING RETURNING code, subject, detail";
const CLEAR: &str = "
    DELETE FROM alert a WHERE code <> 'domain-expiring' AND NOT EXISTS (
        SELECT 1 FROM unnest($1::text[], $2::text[]) AS n (code, subject) WHERE n.code = a.code AND n.subject = a.subject)
    RETURNING code, subject, detail";

/// Less than a ninth of its life is left: to the letter what the index is made for.
macro_rules! ending {
    () => {
        "c.superseded_at IS NULL
         AND ((c.not_after - timestamptz '2000-01-01 00:00:00+00') - (c.not_after - c.not_before) / 9)
             < statement_timestamp() - timestamptz '2000-01-01 00:00:00+00'"
    };
}

const OVER: &str = concat!(
    "DELETE FROM alert a WHERE a.code = 'domain-expiring' AND NOT EXISTS (
        SELECT 1 FROM domain d JOIN certificate c ON c.id = d.certificate_id
        WHERE d.name = a.subject AND d.removed_at IS NULL AND d.removing_since IS NULL AND ",
    ending!(),
    ")"
);
const UNTOLD: &str = concat!(
    "SELECT d.name, c.not_before, c.not_after FROM certificate c JOIN domain d ON d.id = c.domain_id WHERE ",
    ending!(),
    " AND d.certificate_id = c.id AND d.removed_at IS NULL AND d.removing_since IS NULL
      AND NOT EXISTS (SELECT 1 FROM alert a WHERE a.code = 'domain-expiring' AND a.subject = d.name) LIMIT $1"
);

#[async_trait]
impl Alerts for PostgresStore {
    async fn settle_alerts(
        &self,
        fence: Option<&Fence>,
        actor: &Actor,
        standing: &[StandingAlert],
    ) -> Result<u64> {
        let mut transaction = self.fenced("settle alerts", fence).await?;
        let mut events = raise(&mut transaction, actor, standing).await?;
        let (codes, subjects) =
            (texts(standing, |alert| &alert.code), texts(standing, |alert| &alert.subject));
        for row in transaction.rows(sql(CLEAR).bind(codes).bind(subjects)).await? {
            let (code, subject) = (row.text("code")?, row.text("subject")?);
            let detail = told(&code, &row.text("detail")?);
            note(&mut transaction, actor, "alert-cleared", &subject, &detail).await?;
            events += 1;
        }
        transaction.commit().await?;
        if events > 0 {
            self.herald.tell(&[Topic::Events]);
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
        transaction.execute(sql(OVER)).await?;
        let untold = transaction.rows(sql(UNTOLD).bind(i64::from(limit))).await?;
        let untold = untold.iter().map(|row| Ok(expiring(row)?.into()));
        let untold = untold.collect::<Result<Vec<StandingAlert>>>()?;
        let events = raise(&mut transaction, actor, &untold).await?;
        transaction.commit().await?;
        if events > 0 {
            self.herald.tell(&[Topic::Events]);
        }
        Ok(events)
    }
}

fn texts(alerts: &[StandingAlert], of: fn(&StandingAlert) -> &String) -> Vec<String> {
    alerts.iter().map(of).cloned().collect()
}

/// Raises those that do not stand, each with its event; gives how many.
async fn raise(
    transaction: &mut Transaction<'_, Postgres>,
    actor: &Actor,
    alerts: &[StandingAlert],
) -> Result<u64> {
    let raise = sql(RAISE)
        .bind(texts(alerts, |alert| &alert.code))
        .bind(texts(alerts, |alert| &alert.subject))
        .bind(texts(alerts, |alert| &alert.detail));
    let mut events = 0;
    for row in transaction.rows(raise).await? {
        let (code, subject) = (row.text("code")?, row.text("subject")?);
        let detail = told(&code, &row.text("detail")?);
        note(transaction, actor, raised(&code), &subject, &detail).await?;
        events += 1;
    }
    Ok(events)
}
