//! Events. A reader sees only what lies below every transaction that still runs, in the order of transactions:
//! nothing can appear behind it. A domain's own history needs no such care, because its rows are written one after another.

use async_trait::async_trait;
use holdfast_model::DomainId;
use sqlx::Postgres;

use super::{PostgresStore, sql};
use crate::{
    Actor, Event, EventCursor, EventLag, Events, Page, Paged, Result, Topic,
    page::{number_after, paged},
    pool::{Statement, Transaction},
    row::{Fields as _, event},
};

/// Below this everything is decided.
macro_rules! settled {
    () => {
        "(SELECT base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM event_log)"
    };
}
pub(super) use settled;

const HISTORY: &str = "
    SELECT * FROM event WHERE domain_id = $1 AND id > $2 ORDER BY id LIMIT $3";

const AFTER: &str = concat!(
    "SELECT * FROM event WHERE (xid, id) > ($1, $2) AND xid < ",
    settled!(),
    " ORDER BY xid, id LIMIT $3"
);

const LATEST: &str = concat!(
    "SELECT xid, id FROM event WHERE xid < ",
    settled!(),
    " ORDER BY xid DESC, id DESC LIMIT 1"
);

const NOTICE: &str = "
    INSERT INTO event (at, instance, actor, kind, subject, detail) VALUES (clock_timestamp(), $1, $2, $3, $4, $5)";

#[async_trait]
impl Events for PostgresStore {
    async fn history(&self, domain: DomainId, page: &Page) -> Result<Paged<Event>> {
        let after = number_after(page)?;
        let statement = sql(HISTORY).bind(domain.0).bind(after).bind(page.rows());
        let rows = self.pool.rows("read a history", statement).await?;
        paged(&rows, page, |row| Ok((Some(event(row)?), row.number("id")?.to_string())))
    }

    async fn events_after(&self, after: EventCursor, limit: u32) -> Result<Vec<Event>> {
        let statement = sql(AFTER).bind(after.xid).bind(after.id).bind(i64::from(limit.max(1)));
        self.pool.rows("read events", statement).await?.iter().map(event).collect()
    }

    async fn latest_event(&self) -> Result<EventCursor> {
        let Some(row) = self.pool.row("find the latest event", sql(LATEST)).await? else {
            return Ok(EventCursor::default());
        };
        Ok(EventCursor { xid: row.number("xid")?, id: row.number("id")? })
    }

    async fn event_lag(&self) -> Result<EventLag> {
        self.lag_of_events().await
    }

    async fn notice(&self, actor: &Actor, kind: &str, subject: &str, detail: &str) -> Result<()> {
        self.pool.execute("append a notice", notice(actor, kind, subject, detail)).await?;
        self.herald.tell(&[Topic::Events]);
        Ok(())
    }
}

fn notice(actor: &Actor, kind: &str, subject: &str, detail: &str) -> Statement<Postgres> {
    sql(NOTICE).bind(&*actor.instance).bind(&*actor.name).bind(kind).bind(subject).bind(detail)
}

/// Appends a notice within a transaction.
pub(super) async fn note(
    transaction: &mut Transaction<'_, Postgres>,
    actor: &Actor,
    kind: &str,
    subject: &str,
    detail: &str,
) -> Result<()> {
    transaction.execute(notice(actor, kind, subject, detail)).await?;
    Ok(())
}
