//! Alerts that stand.

use async_trait::async_trait;
use sqlx::Postgres;
use uuid::Uuid;

use super::{PostgresStore, event::note, sql};
use crate::{
    Actor, Alerts, Ending, Fence, LateIssues, Result, StandingAlert, Topic,
    alert::{EndingPart, raised, told},
    pool::Transaction,
    query::alert::NEXT_TOLD,
    row::Fields as _,
    vital::COUNTED,
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

/// When less than a ninth of a certificate's life is left, as a span: to the letter what the index is made for.
macro_rules! ending_at {
    () => {
        "((c.not_after - timestamptz '2000-01-01 00:00:00+00') - (c.not_after - c.not_before) / 9)"
    };
}

macro_rules! ending {
    () => {
        concat!(
            "c.superseded_at IS NULL AND ",
            ending_at!(),
            " < statement_timestamp() - timestamptz '2000-01-01 00:00:00+00'"
        )
    };
}

const ENDING: &str = concat!(
    "SELECT *, count(*) OVER () AS n FROM (
        SELECT d.name, c.not_before, c.not_after FROM certificate c CROSS JOIN LATERAL (SELECT name FROM domain d
            WHERE d.id = c.domain_id AND d.certificate_id = c.id AND d.removed_at IS NULL AND d.removing_since IS NULL OFFSET 0) d WHERE ",
    ending!(),
    " ORDER BY ",
    ending_at!(),
    "   LIMIT $1) e ORDER BY not_after LIMIT $2"
);
/// To the letter what the index is made for.
const LATE: &str = "
    SELECT *, count(*) OVER () AS n FROM (
        SELECT d.name, c.not_before, c.not_after, c.created_at FROM certificate c CROSS JOIN LATERAL (SELECT name FROM domain d
            WHERE d.id = c.domain_id AND d.certificate_id = c.id AND d.removed_at IS NULL AND d.removing_since IS NULL OFFSET 0) d
        WHERE c.superseded_at IS NULL AND c.directory <> 'imported' AND c.created_at - c.not_before > (c.not_after - c.not_before) / 3
        ORDER BY c.created_at DESC LIMIT $1) late ORDER BY created_at DESC LIMIT $2";
const MENDED: &str = concat!(
    "DELETE FROM alert a WHERE a.code = 'domain-expiring' AND a.subject > $1
        AND a.subject <= coalesce($2, (SELECT max(subject) FROM alert WHERE code = 'domain-expiring')) AND NOT EXISTS (
        SELECT 1 FROM domain d JOIN certificate c ON c.id = d.certificate_id
        WHERE d.name = a.subject AND d.removed_at IS NULL AND d.removing_since IS NULL AND ",
    ending!(),
    ")"
);
const PART: &str = concat!(
    "SELECT p.id, p.not_before, p.not_after, d.name FROM (
        SELECT c.id, c.domain_id, c.not_before, c.not_after, ",
    ending_at!(),
    "   AS ending_at FROM certificate c WHERE ",
    ending!(),
    "   AND ",
    ending_at!(),
    "   >= coalesce((SELECT ",
    ending_at!(),
    "   FROM certificate c WHERE c.id = $1), interval '-100 years')
        AND ($1 IS NULL OR (",
    ending_at!(),
    "   , c.id) > (SELECT ",
    ending_at!(),
    "   , c.id FROM certificate c WHERE c.id = $1))
        ORDER BY ",
    ending_at!(),
    "   , c.id LIMIT $2) p
    LEFT JOIN LATERAL (SELECT name FROM domain d
        WHERE d.id = p.domain_id AND d.certificate_id = p.id AND d.removed_at IS NULL AND d.removing_since IS NULL
            AND NOT EXISTS (SELECT 1 FROM alert a WHERE a.code = 'domain-expiring' AND a.subject = d.name) OFFSET 0) d ON true
    ORDER BY p.ending_at, p.id"
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
        part: u32,
    ) -> Result<u64> {
        let (mut mended, mut after, mut told) = (Some(String::new()), None, 0);
        while let Some(from) = mended {
            mended = self.forget_mended(fence, &from, part).await?;
        }
        loop {
            let (events, last) = self.tell_ending(fence, actor, after, part).await?;
            told += events;
            after = last;
            if after.is_none() {
                return Ok(told);
            }
        }
    }

    async fn ending(&self, limit: u32) -> Result<Ending> {
        let ending = sql(ENDING).bind(i64::from(COUNTED)).bind(i64::from(limit));
        Ending::read(&self.pool.rows("find what was not renewed", ending).await?)
    }

    async fn late_issues(&self, limit: u32) -> Result<LateIssues> {
        let late = sql(LATE).bind(i64::from(COUNTED)).bind(i64::from(limit));
        LateIssues::read(&self.pool.rows("find what was issued late", late).await?)
    }
}

impl PostgresStore {
    /// Forgets of one part of those who were told of, from this name on, those who are mended; gives where the next part begins.
    async fn forget_mended(
        &self,
        fence: Option<&Fence>,
        after: &str,
        part: u32,
    ) -> Result<Option<String>> {
        let mut transaction = self.fenced("forget who is mended", fence).await?;
        let next = sql(NEXT_TOLD).bind(after.to_owned()).bind(i64::from(part));
        let next = transaction.row(next).await?.map(|row| row.text("subject")).transpose()?;
        let mended = sql(MENDED).bind(after.to_owned()).bind(next.clone());
        transaction.execute(mended).await?;
        transaction.commit().await?;
        Ok(next)
    }

    /// Tells of one part of those that are ending, from this certificate on; gives how many were told of, and where the next part begins.
    async fn tell_ending(
        &self,
        fence: Option<&Fence>,
        actor: &Actor,
        after: Option<Uuid>,
        part: u32,
    ) -> Result<(u64, Option<Uuid>)> {
        let mut transaction = self.fenced("tell of what expires", fence).await?;
        let rows = sql(PART).bind(after).bind(i64::from(part.max(1)));
        let EndingPart { untold, last } = EndingPart::read(&transaction.rows(rows).await?, part)?;
        let events = raise(&mut transaction, actor, &untold).await?;
        transaction.commit().await?;
        if events > 0 {
            self.herald.tell(&[Topic::Events]);
        }
        Ok((events, last))
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
