//! The queue for orders. The account's row is locked for one short transaction, in which pause, budget and open orders
//! are seen as they are; so the limits hold over all replicas.

use std::time::Duration;

use holdfast_model::Timestamp;
use sqlx::Postgres;

use super::{
    PostgresStore, known_states, known_wants, maybe_time, micros,
    moment::BUDGET,
    sql,
    work::{PUT_ASIDE, take_claim},
};
use crate::{
    AccountId, Admission, Claimant, Claimed, Error, OrderLimits, Result,
    budget::{Allowed, Room},
    pool::Transaction,
    row::{Fields as _, budget, closed, domain_columns, given, pause, sorted_out},
};

/// In the queue, and in nobody's hands.
macro_rules! queued {
    () => {
        "queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
         AND (claimed_until IS NULL OR claimed_until <= statement_timestamp())"
    };
}

/// Who renews at no cost, who has a certificate and is charged all the same, and who has none: the kinds of the index `domain_waiting`.
macro_rules! kind {
    (renewing) => {
        "renews IS true AND (certificate_id IS NULL) IS false"
    };
    (charged) => {
        "renews IS false AND (certificate_id IS NULL) IS false"
    };
    (new) => {
        "renews IS false AND (certificate_id IS NULL) IS true"
    };
}

/// Who has been in the queue for longest, in anybody's hands or not, of a kind.
macro_rules! first_queued {
    ($kind:tt, $from:literal) => {
        concat!(
            "(SELECT queued_at FROM domain WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL AND ",
            kind!($kind),
            " AND queued_at >= coalesce(",
            $from,
            "::timestamptz, '-infinity') ORDER BY queued_at LIMIT 1)"
        )
    };
}

/// The queue and the account, without a lock: a queue that is closed costs no more than this.
const WAITING: &str = concat!(
    "SELECT clock.now, ",
    first_queued!(renewing, "$1"),
    " AS renewing, ",
    first_queued!(charged, "$2"),
    " AS charged, ",
    first_queued!(new, "$3"),
    " AS new, a.paused_until, a.paused_at, a.budget_at, h.halted_at, h.halted_until, a.id IS NOT NULL AS known
    FROM (SELECT clock_timestamp() AS now) clock LEFT JOIN acme_account a ON a.id = $4 LEFT JOIN account_halt h ON h.account_id = a.id"
);

const LOCK: &str = "
    SELECT a.paused_until, a.paused_at, a.budget_at, h.halted_at, h.halted_until, t.turn, clock_timestamp() AS now
    FROM acme_account a CROSS JOIN order_turn t LEFT JOIN account_halt h ON h.account_id = a.id
    WHERE a.id = $1 FOR UPDATE OF a";

/// Those of a kind who may be given an order. Nobody of them has been in the queue since before `$from`.
macro_rules! waiting {
    ($kind:tt, $from:literal) => {
        concat!(
            "FROM domain WHERE ",
            queued!(),
            " AND queued_at >= ",
            $from,
            " AND state = ANY ($6) AND (wanted IS NULL OR wanted = ANY ($9)) AND ",
            kind!($kind)
        )
    };
}

/// Those at the head of the queue that are not the renewals they were taken for: their certificate is of another CA or too old by now.
/// `$1` is the account, `$2` how many are looked at. A scalar is looked up for each; joined, all certificates may be read.
const SETTLE: &str = concat!(
    "WITH first AS MATERIALIZED (SELECT id, certificate_id FROM domain WHERE ",
    queued!(),
    " AND queued_at >= $3 AND ",
    kind!(renewing),
    " ORDER BY queued_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)
    UPDATE domain d SET renews = false FROM first WHERE d.id = first.id AND NOT coalesce((
        SELECT c.directory = (SELECT directory FROM acme_account WHERE id = $1) AND c.created_at > clock_timestamp() - interval '120 days'
        FROM certificate c WHERE c.id = first.certificate_id), false)
    RETURNING d.queued_at"
);

/// Open orders. Locked by their account: nobody makes one out meanwhile. Those of domains parked in a failure are open, but nobody works
/// on them, and they must not hold up others.
const IN_FLIGHT: &str = "
    SELECT clock_timestamp() AS now, min(o.created_at) AS first,
        count(*) FILTER (WHERE d.state NOT IN ('AcmeChallengeFailed', 'CertificateDownloadFailed')) AS n
    FROM acme_order o JOIN domain d ON d.id = o.domain_id
    WHERE o.account_id = $1 AND o.ended_at IS NULL AND o.created_at >= coalesce($2::timestamptz, '-infinity')";

/// `$10` is how many of the orders are first offered to those without a certificate, `$14` how many may be charged, `$15` how many were
/// found to renew at no cost.
const TAKE: &str = concat!(
    "WITH offered AS (SELECT count(*) AS n FROM (SELECT 1 ",
    waiting!(new, "$13"),
    " LIMIT $10) n),
    free AS (SELECT id, queued_at, 0 AS charged ",
    waiting!(renewing, "$11"),
    " ORDER BY queued_at, id LIMIT $15 FOR UPDATE SKIP LOCKED),
    costly AS (SELECT id, queued_at, 1 AS charged ",
    waiting!(charged, "$12"),
    " ORDER BY queued_at, id LIMIT $14 - (SELECT n FROM offered) FOR UPDATE SKIP LOCKED),
    renewing AS (SELECT id, charged FROM (SELECT * FROM free UNION ALL SELECT * FROM costly) r
        ORDER BY queued_at, id LIMIT $4 - (SELECT n FROM offered)),
    new AS (SELECT id ",
    waiting!(new, "$13"),
    " ORDER BY queued_at, id
        LIMIT (SELECT least($4 - count(*), $14 - coalesce(sum(charged), 0)) FROM renewing) FOR UPDATE SKIP LOCKED),
    picked AS (SELECT id, gen_random_uuid() AS order_id FROM (SELECT id FROM renewing UNION ALL SELECT id FROM new) p),
    claimed AS (UPDATE domain d SET ",
    take_claim!(),
    ", order_id = picked.order_id FROM picked WHERE d.id = picked.id RETURNING d.*),
    ordered AS (
        INSERT INTO acme_order (id, domain_id, account_id, cost, created_at)
        SELECT order_id, id, $5, CASE WHEN renews THEN 0 ELSE $7 END, clock_timestamp() FROM claimed),
    turned AS (UPDATE order_turn SET turn = turn + (SELECT count(*) FROM claimed)),
    spent AS (UPDATE acme_account SET
            budget_at = $8 + (SELECT count(*) FROM claimed WHERE NOT renews) * $7 * interval '1 microsecond'
        WHERE id = $5)
    SELECT d.renews, ",
    domain_columns!(),
    " FROM claimed d LEFT JOIN certificate c ON c.id = d.certificate_id ORDER BY (d.certificate_id IS NULL), d.queued_at, d.id"
);

/// Takes an order back that was just made out for who cannot use it.
const UNORDER: &str = "
    WITH freed AS (UPDATE domain SET order_id = NULL WHERE id = ANY ($1))
    DELETE FROM acme_order WHERE domain_id = ANY ($1) AND ended_at IS NULL";

impl PostgresStore {
    pub(super) async fn admit_queued(
        &self,
        who: &Claimant,
        account: AccountId,
        limits: OrderLimits,
        limit: u32,
        hold: Duration,
    ) -> Result<Admission> {
        let queue = self.look_at_queue(account, limits).await?;
        let now = queue.now;
        if limit == 0 || !queue.is_waiting() || queue.is_closed {
            return Ok(Admission { now, work: Vec::new(), ask_again_at: queue.opens_at });
        }
        let mut transaction = self.pool.begin("admit orders").await?;
        let room = self.room(&mut transaction, account, limits).await?;
        let allowed = room.allowed(limits, limit);
        let settled = self.settle(&mut transaction, account, allowed, &queue).await?;
        let taking = Taking { who, account, hold, queue: &queue, settled: settled.len() };
        let (work, given) = match allowed.orders {
            0 => (Vec::new(), allowed),
            _ => taking.take(&mut transaction, &room, allowed).await?,
        };
        transaction.commit().await?;
        if let Some(since) = settled.into_iter().min() {
            // They have moved to another part of the index, and behind them may be more.
            self.marks.queue.appeared(&(), since);
            return Ok(Admission { now: room.now, work, ask_again_at: Some(room.now) });
        }
        let ask_again_at = room.ask_again_at(given, allowed);
        Ok(Admission { now: room.now, work, ask_again_at })
    }

    async fn look_at_queue(&self, account: AccountId, limits: OrderLimits) -> Result<Queue> {
        let look = self.marks.queue.begin(&());
        let [renewing, charged, new] = look.from.map(maybe_time);
        let waiting = sql(WAITING).bind(renewing).bind(charged).bind(new).bind(account.0);
        let row = self.pool.one("look at the queue", waiting).await?;
        let first = [row.maybe_at("renewing")?, row.maybe_at("charged")?, row.maybe_at("new")?];
        let now = row.at("now")?;
        let mut queue = Queue { now, first, is_closed: false, opens_at: None };
        self.marks.queue.looked((), look, queue.now, queue.begins().map(Some));
        if queue.is_waiting() && row.flag("known")? {
            (queue.is_closed, queue.opens_at) = closed(&row, limits, now, first[0].is_some())?;
        }
        Ok(queue)
    }

    /// When those had joined the queue that turned out to be no renewals.
    async fn settle(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        account: AccountId,
        allowed: Allowed,
        queue: &Queue,
    ) -> Result<Vec<Timestamp>> {
        let [renewing, ..] = queue.first;
        if allowed.orders == 0 || renewing.is_none() {
            return Ok(Vec::new());
        }
        let [renewing, ..] = queue.begins().map(super::time);
        let settle = sql(SETTLE).bind(account.0).bind(i64::from(allowed.orders)).bind(renewing);
        let settled = transaction.rows(settle).await?;
        settled.iter().map(|row| row.at("queued_at")).collect()
    }

    async fn room(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        account: AccountId,
        limits: OrderLimits,
    ) -> Result<Room> {
        let row =
            transaction.row(sql(LOCK).bind(account.0)).await?.ok_or(Error::NotFound("account"))?;
        // A statement of its own: only now, with the lock held, are all earlier admissions seen.
        let in_flight = self.in_flight(transaction, account).await?;
        let now = row.at("now")?;
        let mut left = budget(&row, limits)?;
        if left.is_beyond_capacity(now) {
            left = budget(&transaction.one(sql(BUDGET).bind(account.0)).await?, limits)?;
        }
        Ok(Room {
            now,
            pause: pause(&row, now)?,
            budget: left,
            in_flight,
            turn: row.number("turn")?,
        })
    }

    async fn in_flight(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        account: AccountId,
    ) -> Result<u32> {
        let look = self.marks.orders.begin(&account.0);
        let [from] = look.from.map(maybe_time);
        let row = transaction.one(sql(IN_FLIGHT).bind(account.0).bind(from)).await?;
        let (now, first) = (row.at("now")?, row.maybe_at("first")?);
        self.marks.orders.looked(account.0, look, now, [Some(first.unwrap_or(now))]);
        row.count("n")
    }
}

/// The queue, as it was looked at.
struct Queue {
    now: Timestamp,
    /// When who has waited longest joined it: of those that renew at no cost, of others with a certificate, and of those without.
    first: [Option<Timestamp>; 3],
    /// Can nobody in it be given an order before the clock or a person opens it?
    is_closed: bool,
    opens_at: Option<Timestamp>,
}

impl Queue {
    fn is_waiting(&self) -> bool {
        self.first.iter().any(Option::is_some)
    }

    /// Where those begin who may be taken. Nobody waits at all where none is known to have joined before now.
    fn begins(&self) -> [Timestamp; 3] {
        self.first.map(|first| first.map_or(self.now, |first| first.min(self.now)))
    }
}

/// What orders are given out for.
struct Taking<'a> {
    who: &'a Claimant,
    account: AccountId,
    hold: Duration,
    queue: &'a Queue,
    /// How many turned out to be no renewals: as many more in their place were not looked at.
    settled: usize,
}

impl Taking<'_> {
    /// The work, and how much of what was allowed it took.
    async fn take(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        room: &Room,
        allowed: Allowed,
    ) -> Result<(Vec<Claimed>, Allowed)> {
        let [renewing, charged, new] = self.queue.begins().map(super::time);
        let base = room.budget.taken(room.now, 0).full_at().unwrap_or(room.now);
        let settled = i64::try_from(self.settled).unwrap_or(i64::MAX);
        let statement = sql(TAKE)
            .bind(&*self.who.instance)
            .bind(self.who.incarnation)
            .bind(micros(self.hold))
            .bind(i64::from(allowed.orders))
            .bind(self.account.0)
            .bind(known_states())
            .bind(micros(room.budget.cost()))
            .bind(super::time(base))
            .bind(known_wants())
            .bind(i64::from(room.first_for_new(allowed)))
            .bind(renewing)
            .bind(charged)
            .bind(new)
            .bind(i64::from(allowed.charged))
            .bind((i64::from(allowed.orders) - settled).max(0));
        let rows = transaction.rows(statement).await?;
        let given = given(&rows)?;
        let (work, aside) = sorted_out(&rows)?;
        if !aside.is_empty() {
            let statement = sql(PUT_ASIDE).bind(aside.clone()).bind(self.who.incarnation);
            transaction.execute(statement).await?;
            transaction.execute(sql(UNORDER).bind(aside)).await?;
        }
        Ok((work, given))
    }
}
