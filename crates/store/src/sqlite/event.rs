//! Events. One writer at a time: ids rise in the order of commits, and nothing can appear behind a reader.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{DomainId, Hostname, Note, State};
use sqlx::Sqlite;

use super::{SqliteStore, Tx, now, sql, time};
use crate::{
    Actor, Event, EventCursor, EventLag, Events, Page, Paged, Result, Topic,
    page::{number_after, paged},
    pool::Statement,
    row::{Fields as _, event},
};

const HISTORY: &str = "
    SELECT * FROM event WHERE domain_id = $1 AND id > $2 ORDER BY id LIMIT $3";
/// Within the file ids alone are the order. A cursor of an earlier life may lie beyond where that life was cut off: then the new one's
/// first event is next.
const AFTER: &str = "
    SELECT * FROM event
    WHERE id > min($2, coalesce((SELECT id FROM event WHERE xid > $1 ORDER BY xid, id LIMIT 1) - 1, $2))
    ORDER BY id LIMIT $3";
const LATEST: &str = "SELECT xid, id FROM event ORDER BY id DESC LIMIT 1";
const TELL: &str = "
    INSERT INTO event (xid, at, instance, actor, kind, domain_id, subject, from_state, to_state, duration_ms, attempt, error_code, detail)
    SELECT epoch, $1, $2, $3, 'transition', $4, $5, $6, $7, $8, $9, $10, $11 FROM event_log";
const NOTICE: &str = "
    INSERT INTO event (xid, at, instance, actor, kind, subject, detail) SELECT epoch, $1, $2, $3, $4, $5, $6 FROM event_log";

#[async_trait]
impl Events for SqliteStore {
    async fn history(&self, domain: DomainId, page: &Page) -> Result<Paged<Event>> {
        let after = number_after(page)?;
        let statement = sql(HISTORY).bind(domain.0).bind(after).bind(page.rows());
        let rows = self.readers.rows("read a history", statement).await?;
        paged(&rows, page, |row| Ok((Some(event(row)?), row.number("id")?.to_string())))
    }

    async fn events_after(&self, after: EventCursor, limit: u32) -> Result<Vec<Event>> {
        let statement = sql(AFTER).bind(after.xid).bind(after.id).bind(i64::from(limit.max(1)));
        self.readers.rows("read events", statement).await?.iter().map(event).collect()
    }

    async fn latest_event(&self) -> Result<EventCursor> {
        let Some(row) = self.readers.row("find the latest event", sql(LATEST)).await? else {
            return Ok(EventCursor::default());
        };
        Ok(EventCursor { xid: row.number("xid")?, id: row.number("id")? })
    }

    /// One writer at a time: what is committed can be read.
    async fn event_lag(&self) -> Result<EventLag> {
        Ok(EventLag::default())
    }

    async fn notice(&self, actor: &Actor, kind: &str, subject: &str, detail: &str) -> Result<()> {
        self.writer.execute("append a notice", notice(actor, kind, subject, detail)).await?;
        self.tell(&[Topic::Events]);
        Ok(())
    }
}

fn notice(actor: &Actor, kind: &str, subject: &str, detail: &str) -> Statement<Sqlite> {
    sql(NOTICE)
        .bind(time(now()))
        .bind(&*actor.instance)
        .bind(&*actor.name)
        .bind(kind)
        .bind(subject)
        .bind(detail)
}

/// Appends a notice within a transaction.
pub(super) async fn note(
    transaction: &mut Tx,
    actor: &Actor,
    kind: &str,
    subject: &str,
    detail: &str,
) -> Result<()> {
    transaction.execute(notice(actor, kind, subject, detail)).await?;
    Ok(())
}

/// One line of a domain's history.
pub(super) struct Line<'a> {
    pub(super) domain: DomainId,
    pub(super) name: &'a Hostname,
    pub(super) from: Option<State>,
    pub(super) to: Option<State>,
    pub(super) lasted: Duration,
    pub(super) attempt: u32,
    pub(super) error: Option<&'a Note>,
}

impl<'a> Line<'a> {
    pub(super) const fn of(domain: DomainId, name: &'a Hostname) -> Self {
        Self { domain, name, from: None, to: None, lasted: Duration::ZERO, attempt: 0, error: None }
    }
}

/// Appends a line within a transaction.
pub(super) async fn tell(transaction: &mut Tx, actor: &Actor, line: &Line<'_>) -> Result<()> {
    let statement = sql(TELL)
        .bind(time(now()))
        .bind(&*actor.instance)
        .bind(&*actor.name)
        .bind(line.domain.0)
        .bind(line.name.as_str())
        .bind(line.from.map(State::as_str))
        .bind(line.to.map(State::as_str))
        .bind(i64::try_from(line.lasted.as_millis()).unwrap_or(i64::MAX))
        .bind(i64::from(line.attempt))
        .bind(line.error.map(|note| note.code.to_string()))
        .bind(line.error.map(|note| note.detail.as_str()));
    transaction.execute(statement).await?;
    Ok(())
}
