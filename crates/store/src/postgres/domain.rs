//! Domains, as people see them.

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{Domain, DomainId, Hostname, State, Wanted};
use sqlx::Postgres;

use super::{PostgresStore, sql};
pub(super) use crate::query::select_domain;
use crate::{
    Actor, Added, DomainFilter, DomainPatch, Domains, Error, Fence, NewDomain, Page, Paged,
    QueueStanding, Result, Topic,
    lane::COUNTED_PLACES,
    maintenance::FOLDED,
    page::{name_after, paged, prefix_range},
    pool::Statement,
    query::domain::{BY_ID, BY_NAME, LIST, LIST_BOTH, LIST_STATE, LIST_TENANT},
    row::{Fields as _, domain, listed, standing},
};

/// Who holds the row is left in peace: the commit, or the end of the claim, sees what was asked
/// for. Whoever writes `due_at` also writes `updated_at`: a row that was written in the future is
/// found by it.
macro_rules! due_unless_claimed {
    () => {
        "due_at = CASE WHEN claimed_until > clock_timestamp() THEN due_at ELSE clock_timestamp() END, updated_at = clock_timestamp()"
    };
}
pub(super) use due_unless_claimed;

const WANT: &str = concat!(
    "WITH asked AS (UPDATE domain SET wanted = $2, wanted_seen = false, ",
    due_unless_claimed!(),
    " WHERE id = $1 AND removed_at IS NULL RETURNING name)
    INSERT INTO event (at, instance, actor, kind, subject, detail)
    SELECT clock_timestamp(), $3, $4, 'domain-wanted', name, $2 FROM asked RETURNING id"
);

const REMOVE: &str = concat!(
    "WITH asked AS (UPDATE domain SET removing_since = coalesce(removing_since, clock_timestamp()), revoke = revoke OR $2, ",
    due_unless_claimed!(),
    " WHERE id = $1 AND removed_at IS NULL RETURNING name),
    told AS (INSERT INTO event (at, instance, actor, kind, subject)
        SELECT clock_timestamp(), $3, $4, 'domain-removing', name FROM asked
        WHERE NOT EXISTS (SELECT FROM domain WHERE id = $1 AND removing_since IS NOT NULL))
    SELECT id FROM domain WHERE id = $1"
);

/// With a tail longer than is read, what stood when the last of what is read happened.
const COUNTS: &str = "
    SELECT state, sum(n)::bigint AS n FROM (
        SELECT state, count AS n FROM state_count
        UNION ALL
        SELECT delta.state, delta.n FROM (
            SELECT kind, from_state, to_state FROM event
            WHERE (xid, id) > ((SELECT folded_xid FROM event_log), (SELECT folded_id FROM event_log)) ORDER BY xid, id LIMIT $1) tail
            CROSS JOIN LATERAL (VALUES (tail.to_state, 1), (tail.from_state, -1)) delta (state, n)
        WHERE tail.kind = 'transition'
    ) counted WHERE state IS NOT NULL GROUP BY state HAVING sum(n) > 0";

/// How many of a kind wait, counted as far as a place is told.
/// `IS`, because PostgreSQL makes of `= false` what is in no index.
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
    ahead!("IS false", "IS true"),
    " ELSE ",
    ahead!("IS true", "IS false"),
    " + ",
    ahead!("IS false", "IS false"),
    " END AS own, CASE WHEN d.certificate_id IS NULL THEN ",
    counted!("IS true", "IS false", ""),
    " + ",
    counted!("IS false", "IS false", ""),
    " ELSE ",
    counted!("IS false", "IS true", ""),
    " END AS other, d.certificate_id IS NOT NULL AS renews, NOT d.renews AS is_charged
    FROM domain d WHERE d.id = $1 AND d.queued_at IS NOT NULL AND d.order_id IS NULL AND d.removing_since IS NULL"
);

/// Both bounds instead of one value, and the order, keep the planner to the index of a directory's certificates by their end, however
/// common it thinks the directory is; `OFFSET 0` keeps it to one look for each of them.
/// Each certificate once: a replica that still orders at the old directory would bring another from there, and that another, without end.
const WANT_MOVED: &str = concat!(
    "WITH old AS (
        SELECT d.id FROM certificate c CROSS JOIN LATERAL (SELECT id FROM domain d WHERE d.id = c.domain_id AND d.certificate_id = c.id
            AND d.state = 'Active' AND d.wanted IS NULL AND d.removing_since IS NULL AND d.removed_at IS NULL
            FOR UPDATE SKIP LOCKED OFFSET 0) d
        WHERE c.directory >= $1 AND c.directory <= $1 AND c.superseded_at IS NULL
            AND c.created_at < coalesce((SELECT value::timestamptz FROM setting WHERE key = 'moving_since'), 'infinity')
        ORDER BY c.directory, c.not_after LIMIT $2),
    asked AS (UPDATE domain d SET wanted = 'renew', wanted_seen = false, ",
    due_unless_claimed!(),
    " FROM old WHERE d.id = old.id RETURNING name)
    INSERT INTO event (at, instance, actor, kind, subject, detail)
    SELECT clock_timestamp(), $3, $4, 'domain-wanted', name, 'renew' FROM asked RETURNING id"
);

#[async_trait]
impl Domains for PostgresStore {
    async fn add(&self, new: &NewDomain) -> Result<Added> {
        around(Point::STORE_ADD_DOMAIN, self.add_one(new)).await
    }

    async fn add_many(&self, new: &[NewDomain]) -> Result<Vec<Result<Added>>> {
        around(Point::STORE_ADD_DOMAIN, self.add_all(new)).await
    }

    async fn would_add(&self, new: &NewDomain) -> Result<bool> {
        self.judge_add(new).await
    }

    async fn domain(&self, id: DomainId) -> Result<Option<Domain>> {
        let row = self.pool.row("read a domain", sql(BY_ID).bind(id.0)).await?;
        row.as_ref().map(domain).transpose()
    }

    async fn domain_named(&self, name: &Hostname) -> Result<Option<Domain>> {
        let row = self.pool.row("read a domain", sql(BY_NAME).bind(name.as_str())).await?;
        row.as_ref().map(domain).transpose()
    }

    async fn domains(&self, filter: &DomainFilter, page: &Page) -> Result<Paged<Domain>> {
        let Some((from, to)) = prefix_range(filter.prefix.as_deref()) else {
            return Ok(Paged { items: Vec::new(), next: None });
        };
        let from = name_after(page)?.map_or(from.clone(), |after| from.max(after));
        let rows = self.pool.rows("list domains", list(filter, &from, &to, page)).await?;
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
        let statement =
            sql(WANT).bind(id.0).bind(wanted.as_str()).bind(&*actor.instance).bind(&*actor.name);
        around(Point::STORE_WANT, async {
            let asked = self.pool.row("note a request", statement).await?;
            asked.ok_or(Error::NotFound("domain"))
        })
        .await?;
        self.herald.tell(&[Topic::Work, Topic::Events]);
        Ok(())
    }

    async fn remove(&self, id: DomainId, revoke: bool, actor: &Actor) -> Result<()> {
        let statement =
            sql(REMOVE).bind(id.0).bind(revoke).bind(&*actor.instance).bind(&*actor.name);
        let known = around(Point::STORE_WANT, self.pool.row("begin a removal", statement)).await?;
        // Again is the same, also when it is long gone; only what never was is an error.
        known.ok_or(Error::NotFound("domain"))?;
        self.herald.tell(&[Topic::Work, Topic::Events]);
        Ok(())
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        let rows = self.pool.rows("count domains", sql(COUNTS).bind(i64::from(FOLDED))).await?;
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
        let row = self.pool.row("find a place in the queue", statement).await?;
        row.as_ref().map(standing).transpose()
    }

    async fn want_moved(
        &self,
        fence: Option<&Fence>,
        directory: &str,
        limit: u32,
        actor: &Actor,
    ) -> Result<u64> {
        let statement = sql(WANT_MOVED)
            .bind(directory)
            .bind(i64::from(limit))
            .bind(&*actor.instance)
            .bind(&*actor.name);
        let mut transaction = self.fenced("ask for a move", fence).await?;
        let asked = transaction.rows(statement).await?.len();
        around(Point::STORE_WANT, transaction.commit()).await?;
        if asked > 0 {
            self.herald.tell(&[Topic::Work, Topic::Events]);
        }
        Ok(u64::try_from(asked).unwrap_or(u64::MAX))
    }
}

fn list(filter: &DomainFilter, from: &str, to: &str, page: &Page) -> Statement<Postgres> {
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
