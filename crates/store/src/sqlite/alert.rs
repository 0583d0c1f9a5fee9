//! Alerts that stand.

use async_trait::async_trait;
use uuid::Uuid;

use super::{SqliteStore, Tx, event::note, now, sql, time};
use crate::{
    Actor, Alerts, Ending, Fence, LateIssues, Result, StandingAlert, Topic,
    alert::{EndingPart, raised, told},
    query::alert::NEXT_TOLD,
    row::Fields as _,
    vital::COUNTED,
};

const STANDING: &str = "SELECT code, subject, detail FROM alert WHERE code <> 'domain-expiring'";
const RAISE: &str = "
    INSERT INTO alert (code, subject, detail, raised_at) VALUES ($1, $2, $3, $4) ON CONFLICT (code, subject) DO NOTHING";
const CLEAR: &str = "DELETE FROM alert WHERE code = $1 AND subject = $2";

/// When less than a ninth of a certificate's life is left: to the letter what the index is made for.
macro_rules! ending_at {
    () => {
        "(c.not_after - (c.not_after - c.not_before) / 9)"
    };
}

/// `$3` is the time.
macro_rules! ending {
    () => {
        concat!("c.superseded_at IS NULL AND ", ending_at!(), " < $3")
    };
}

const ENDING: &str = concat!(
    "SELECT *, count(*) OVER () AS n FROM (
        SELECT d.name, c.not_before, c.not_after FROM certificate c JOIN domain d ON d.id = c.domain_id WHERE ",
    ending!(),
    "   AND d.certificate_id = c.id AND d.removed_at IS NULL AND d.removing_since IS NULL ORDER BY ",
    ending_at!(),
    "   LIMIT $1) ORDER BY not_after LIMIT $2"
);
/// To the letter what the index is made for; its beginning is named, so that it is searched.
const LATE: &str = "
    SELECT *, count(*) OVER () AS n FROM (
        SELECT d.name, c.not_before, c.not_after, c.created_at FROM certificate c CROSS JOIN domain d
        WHERE c.superseded_at IS NULL AND c.directory <> 'imported' AND c.created_at - c.not_before > (c.not_after - c.not_before) / 3
          AND c.created_at > 0
          AND d.id = c.domain_id AND d.certificate_id = c.id AND d.removed_at IS NULL AND d.removing_since IS NULL
        ORDER BY c.created_at DESC LIMIT $1) ORDER BY created_at DESC LIMIT $2";
const MENDED: &str = concat!(
    "DELETE FROM alert WHERE code = 'domain-expiring' AND subject > $1
        AND subject <= coalesce($2, (SELECT max(subject) FROM alert WHERE code = 'domain-expiring')) AND NOT EXISTS (
        SELECT 1 FROM domain d JOIN certificate c ON c.id = d.certificate_id
        WHERE d.name = alert.subject AND d.removed_at IS NULL AND d.removing_since IS NULL AND ",
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
    "   FROM certificate c WHERE c.id = $1), 0)
        AND ($1 IS NULL OR (",
    ending_at!(),
    "   , c.id) > (SELECT ",
    ending_at!(),
    "   , c.id FROM certificate c WHERE c.id = $1))
        ORDER BY ",
    ending_at!(),
    "   , c.id LIMIT $2) p
    LEFT JOIN domain d ON d.id = p.domain_id AND d.certificate_id = p.id AND d.removed_at IS NULL AND d.removing_since IS NULL
        AND NOT EXISTS (SELECT 1 FROM alert a WHERE a.code = 'domain-expiring' AND a.subject = d.name)
    ORDER BY p.ending_at, p.id"
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
        let ending = sql(ENDING).bind(i64::from(COUNTED)).bind(i64::from(limit)).bind(time(now()));
        Ending::read(&self.readers.rows("find what was not renewed", ending).await?)
    }

    async fn late_issues(&self, limit: u32) -> Result<LateIssues> {
        let late = sql(LATE).bind(i64::from(COUNTED)).bind(i64::from(limit));
        LateIssues::read(&self.readers.rows("find what was issued late", late).await?)
    }
}

impl SqliteStore {
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
        let mended = sql(MENDED).bind(after.to_owned()).bind(next.clone()).bind(time(now()));
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
        let rows = sql(PART).bind(after).bind(i64::from(part.max(1))).bind(time(now()));
        let EndingPart { untold, last } = EndingPart::read(&transaction.rows(rows).await?, part)?;
        let events = raise(&mut transaction, actor, &untold).await?;
        transaction.commit().await?;
        if events > 0 {
            self.tell(&[Topic::Events]);
        }
        Ok((events, last))
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
