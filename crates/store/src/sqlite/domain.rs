//! Domains, as people see them.

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{Domain, DomainId, Hostname, State, Wanted};
use sqlx::Sqlite;

use super::{SqliteStore, event, now, sql, time};
pub(super) use crate::query::{domain::BY_ID, select_domain};
use crate::{
    Actor, Added, DomainFilter, DomainPatch, Domains, Error, Fence, NewDomain, Page, Paged,
    QueueStanding, Result, Topic,
    lane::COUNTED_PLACES,
    maintenance::FOLDED,
    page::{name_after, paged, prefix_range},
    pool::Statement,
    query::domain::{BY_NAME, LIST, LIST_BOTH, LIST_STATE, LIST_TENANT},
    row::{Fields as _, domain, listed, standing},
};

/// Who holds the row is left in peace: the commit, or the end of the claim, sees what was asked for. `$2` is the time.
/// Whoever writes `due_at` also writes `updated_at`: a row that was written in the future is found
/// by it.
macro_rules! due_unless_claimed {
    () => {
        "due_at = CASE WHEN claimed_until > $2 THEN due_at ELSE $2 END, updated_at = $2"
    };
}
pub(super) use due_unless_claimed;

const WANT: &str = concat!(
    "UPDATE domain SET wanted = $3, wanted_seen = 0, ",
    due_unless_claimed!(),
    " WHERE id = $1 AND removed_at IS NULL RETURNING name"
);
const REMOVE: &str = concat!(
    "UPDATE domain SET removing_since = $2, revoke = $3, ",
    due_unless_claimed!(),
    " WHERE id = $1 AND removed_at IS NULL AND removing_since IS NULL RETURNING name"
);
const REVOKE: &str = "
    UPDATE domain SET revoke = 1 WHERE id = $1 AND removed_at IS NULL AND removing_since IS NOT NULL";
const KNOWN: &str = "SELECT id FROM domain WHERE id = $1";

/// With a tail longer than is read, what stood when the last of what is read happened.
const COUNTS: &str = "
    WITH tail AS MATERIALIZED (
        SELECT kind, from_state, to_state FROM event WHERE id > (SELECT folded_id FROM event_log) ORDER BY id LIMIT $1)
    SELECT state, sum(n) AS n FROM (
        SELECT state, count AS n FROM state_count
        UNION ALL
        SELECT to_state, 1 FROM tail WHERE kind = 'transition'
        UNION ALL
        SELECT from_state, -1 FROM tail WHERE kind = 'transition'
    ) WHERE state IS NOT NULL GROUP BY state HAVING sum(n) > 0";

/// How many of a kind wait, counted as far as a place is told.
macro_rules! counted {
    ($renews:literal, $new:literal, $ahead:literal) => {
        concat!(
            "(SELECT count(*) FROM (SELECT 1 FROM domain q
                WHERE q.queued_at IS NOT NULL AND q.order_id IS NULL AND q.removing_since IS NULL AND q.renews ",
            $renews,
            " AND (q.certificate_id IS NULL) ",
            $new,
            $ahead,
            " LIMIT $2) n)"
        )
    };
}
macro_rules! ahead {
    ($renews:literal, $new:literal) => {
        counted!($renews, $new, " AND (q.queued_at, q.id) <= (d.queued_at, d.id)")
    };
}

/// The place among those that have a certificate as it has, or have none; and how many others wait.
const PLACE: &str = concat!(
    "SELECT CASE WHEN d.certificate_id IS NULL THEN ",
    ahead!("= 0", "= 1"),
    " ELSE ",
    ahead!("= 1", "= 0"),
    " + ",
    ahead!("= 0", "= 0"),
    " END AS own, CASE WHEN d.certificate_id IS NULL THEN ",
    counted!("= 1", "= 0", ""),
    " + ",
    counted!("= 0", "= 0", ""),
    " ELSE ",
    counted!("= 0", "= 1", ""),
    " END AS other, d.certificate_id IS NOT NULL AS renews, NOT d.renews AS is_charged
    FROM domain d WHERE d.id = $1 AND d.queued_at IS NOT NULL AND d.order_id IS NULL AND d.removing_since IS NULL"
);

/// Each certificate once: a replica that still orders at the old directory would bring another from there, and that another, without end.
const WANT_MOVED: &str = concat!(
    "UPDATE domain SET wanted = 'renew', wanted_seen = 0, ",
    due_unless_claimed!(),
    " WHERE id IN (
        SELECT d.id FROM certificate c JOIN domain d ON d.id = c.domain_id AND d.certificate_id = c.id
        WHERE c.directory = $1 AND c.superseded_at IS NULL
          AND c.created_at < coalesce((SELECT CAST(value AS INTEGER) FROM setting WHERE key = 'moving_since'), 9223372036854775807)
          AND d.state = 'Active' AND d.wanted IS NULL AND d.removing_since IS NULL AND d.removed_at IS NULL
        ORDER BY c.not_after LIMIT $3)
    RETURNING name"
);

#[async_trait]
impl Domains for SqliteStore {
    async fn add(&self, new: &NewDomain) -> Result<Added> {
        let added =
            around(Point::STORE_ADD_DOMAIN, self.add_all(std::slice::from_ref(new))).await?;
        added.into_iter().next().unwrap_or(Err(Error::HolderVanished))
    }

    async fn add_many(&self, new: &[NewDomain]) -> Result<Vec<Result<Added>>> {
        around(Point::STORE_ADD_DOMAIN, self.add_all(new)).await
    }

    async fn would_add(&self, new: &NewDomain) -> Result<bool> {
        self.judge_add(new).await
    }

    async fn domain(&self, id: DomainId) -> Result<Option<Domain>> {
        let row = self.readers.row("read a domain", sql(BY_ID).bind(id.0)).await?;
        row.as_ref().map(domain).transpose()
    }

    async fn domain_named(&self, name: &Hostname) -> Result<Option<Domain>> {
        let row = self.readers.row("read a domain", sql(BY_NAME).bind(name.as_str())).await?;
        row.as_ref().map(domain).transpose()
    }

    async fn domains(&self, filter: &DomainFilter, page: &Page) -> Result<Paged<Domain>> {
        let Some((from, to)) = prefix_range(filter.prefix.as_deref()) else {
            return Ok(Paged { items: Vec::new(), next: None });
        };
        let from = name_after(page)?.map_or(from.clone(), |after| from.max(after));
        let rows = self.readers.rows("list domains", list(filter, &from, &to, page)).await?;
        paged(&rows, page, |row| Ok((listed(row), row.text("name")?)))
    }

    async fn patch(
        &self,
        id: DomainId,
        expected: Option<i64>,
        patch: &DomainPatch,
        actor: &Actor,
    ) -> Result<Domain> {
        around(Point::STORE_WANT, self.patch_domain(id, expected, patch, actor)).await
    }

    async fn want(&self, id: DomainId, wanted: Wanted, actor: &Actor) -> Result<()> {
        let statement = sql(WANT).bind(id.0).bind(time(now())).bind(wanted.as_str());
        around(Point::STORE_WANT, self.ask(statement, actor, "domain-wanted", wanted.as_str()))
            .await?
            .ok_or(Error::NotFound("domain"))?;
        Ok(())
    }

    async fn remove(&self, id: DomainId, revoke: bool, actor: &Actor) -> Result<()> {
        let statement = sql(REMOVE).bind(id.0).bind(time(now())).bind(revoke);
        let ask = self.ask(statement, actor, "domain-removing", "");
        if around(Point::STORE_WANT, ask).await?.is_none() && revoke {
            self.writer.execute("begin a removal", sql(REVOKE).bind(id.0)).await?;
        }
        // Again is the same, also when it is long gone; only what never was is an error.
        let known = self.readers.row("begin a removal", sql(KNOWN).bind(id.0)).await?;
        known.map(|_| ()).ok_or(Error::NotFound("domain"))
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        let rows = self.readers.rows("count domains", sql(COUNTS).bind(i64::from(FOLDED))).await?;
        let mut counts = Vec::new();
        for row in rows {
            let (state, n) = (row.text("state")?.parse(), row.number("n")?);
            if let (Ok(state), Ok(n)) = (state, u64::try_from(n)) {
                counts.push((state, n));
            }
        }
        counts.sort_by_key(|(state, _)| *state);
        Ok(counts)
    }

    async fn queue_standing(&self, id: DomainId) -> Result<Option<QueueStanding>> {
        let statement = sql(PLACE).bind(id.0).bind(COUNTED_PLACES);
        let row = self.readers.row("find a place in the queue", statement).await?;
        row.as_ref().map(standing).transpose()
    }

    async fn want_moved(
        &self,
        fence: Option<&Fence>,
        directory: &str,
        limit: u32,
        actor: &Actor,
    ) -> Result<u64> {
        let mut transaction = self.fenced("ask for a move", fence).await?;
        let statement = sql(WANT_MOVED).bind(directory).bind(time(now())).bind(i64::from(limit));
        let rows = transaction.rows(statement).await?;
        for row in &rows {
            event::note(&mut transaction, actor, "domain-wanted", &row.text("name")?, "renew")
                .await?;
        }
        around(Point::STORE_WANT, transaction.commit()).await?;
        if !rows.is_empty() {
            self.tell(&[Topic::Work, Topic::Events]);
        }
        Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
    }
}

fn list(filter: &DomainFilter, from: &str, to: &str, page: &Page) -> Statement<Sqlite> {
    let text = match (&filter.state, &filter.tenant) {
        (None, None) => LIST,
        (Some(_), None) => LIST_STATE,
        (None, Some(_)) => LIST_TENANT,
        (Some(_), Some(_)) => LIST_BOTH,
    };
    let mut statement = sql(text).bind(from).bind(to).bind(page.rows());
    if let Some(tenant) = &filter.tenant {
        statement = statement.bind(tenant.as_str());
    }
    if let Some(state) = filter.state {
        statement = statement.bind(state.as_str());
    }
    statement
}

impl SqliteStore {
    /// Notes what a person asked for, and who did; nothing if there was nobody to ask.
    async fn ask(
        &self,
        statement: Statement<Sqlite>,
        actor: &Actor,
        kind: &str,
        detail: &str,
    ) -> Result<Option<()>> {
        let mut transaction = self.writer.begin("note a request").await?;
        let Some(row) = transaction.row(statement).await? else {
            transaction.abandon().await?;
            return Ok(None);
        };
        event::note(&mut transaction, actor, kind, &row.text("name")?, detail).await?;
        transaction.commit().await?;
        self.tell(&[Topic::Work, Topic::Events]);
        Ok(Some(()))
    }
}
