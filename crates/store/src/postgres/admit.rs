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
    budget::Room,
    lane::turns_of_new,
    pool::Transaction,
    row::{Fields as _, budget, domain_columns, paused_until, sorted_out},
};

/// In the queue, and in nobody's hands.
macro_rules! queued {
    () => {
        "queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
         AND (claimed_until IS NULL OR claimed_until <= statement_timestamp())"
    };
}

/// Who has been in the queue for longest, in anybody's hands or not, of those with and without a certificate.
macro_rules! first_queued {
    ($new:literal, $from:literal) => {
        concat!(
            "(SELECT queued_at FROM domain WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
                AND (certificate_id IS NULL) IS ",
            $new,
            " AND queued_at >= coalesce(",
            $from,
            "::timestamptz, '-infinity') ORDER BY queued_at LIMIT 1)"
        )
    };
}

const WAITING: &str = concat!(
    "SELECT clock_timestamp() AS now, ",
    first_queued!("false", "$1"),
    " AS renewing, ",
    first_queued!("true", "$2"),
    " AS new"
);

const LOCK: &str = "
    SELECT a.paused_until, a.paused_at, a.budget_at, t.turn, clock_timestamp() AS now FROM acme_account a CROSS JOIN order_turn t
    WHERE a.id = $1 FOR UPDATE OF a";

/// Those who may be given an order, with or without a certificate, who has waited longest first. Nobody has been in the queue since
/// before `$from`.
macro_rules! waiting {
    ($new:literal, $from:literal) => {
        concat!(
            "FROM domain WHERE ",
            queued!(),
            " AND queued_at >= ",
            $from,
            " AND state = ANY ($6) AND (wanted IS NULL OR wanted = ANY ($9)) AND (certificate_id IS NULL) IS ",
            $new
        )
    };
}

/// Open orders. Locked by their account: nobody makes one out meanwhile. Those of domains parked in a failure are open, but nobody works
/// on them, and they must not hold up others.
const IN_FLIGHT: &str = "
    SELECT clock_timestamp() AS now, min(o.created_at) AS first,
        count(*) FILTER (WHERE d.state NOT IN ('AcmeChallengeFailed', 'CertificateDownloadFailed')) AS n
    FROM acme_order o JOIN domain d ON d.id = o.domain_id
    WHERE o.account_id = $1 AND o.ended_at IS NULL AND o.created_at >= coalesce($2::timestamptz, '-infinity')";

/// `$10` is how many of the orders are first offered to those without a certificate.
const TAKE: &str = concat!(
    "WITH renewing AS (SELECT id ",
    waiting!("false", "$11"),
    " ORDER BY queued_at, id LIMIT $4 - (SELECT count(*) FROM (SELECT 1 ",
    waiting!("true", "$12"),
    " LIMIT $10) n) FOR UPDATE SKIP LOCKED),
    new AS (SELECT id ",
    waiting!("true", "$12"),
    " ORDER BY queued_at, id LIMIT $4 - (SELECT count(*) FROM renewing) FOR UPDATE SKIP LOCKED),
    picked AS (SELECT id, gen_random_uuid() AS order_id FROM (SELECT id FROM renewing UNION ALL SELECT id FROM new) p),
    claimed AS (UPDATE domain d SET ",
    take_claim!(),
    ", order_id = picked.order_id FROM picked WHERE d.id = picked.id RETURNING d.*),
    ordered AS (
        INSERT INTO acme_order (id, domain_id, account_id, cost, created_at)
        SELECT order_id, id, $5, $7, clock_timestamp() FROM claimed),
    turned AS (UPDATE order_turn SET turn = turn + (SELECT count(*) FROM claimed)),
    spent AS (UPDATE acme_account SET budget_at = $8 + (SELECT count(*) FROM claimed) * $7 * interval '1 microsecond'
        WHERE id = $5)
    SELECT ",
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
        let queue = self.look_at_queue().await?;
        let now = queue.now;
        if limit == 0 || !queue.is_waiting() {
            return Ok(Admission { now, work: Vec::new(), ask_again_at: None });
        }
        let mut transaction = self.pool.begin("admit orders").await?;
        let room = self.room(&mut transaction, account, limits).await?;
        let allowed = room.allowed(limits).min(limit);
        let work = match allowed {
            0 => Vec::new(),
            _ => take(&mut transaction, who, account, &room, allowed, hold, &queue).await?,
        };
        transaction.commit().await?;
        let ask_again_at = room.ask_again_at(&work, allowed);
        Ok(Admission { now: room.now, work, ask_again_at })
    }

    async fn look_at_queue(&self) -> Result<Queue> {
        let look = self.marks.queue.begin(&());
        let [renewing, new] = look.from.map(maybe_time);
        let waiting = sql(WAITING).bind(renewing).bind(new);
        let row = self.pool.one("look at the queue", waiting).await?;
        let first = [row.maybe_at("renewing")?, row.maybe_at("new")?];
        let queue = Queue { now: row.at("now")?, first };
        self.marks.queue.looked((), look, queue.now, queue.begins().map(Some));
        Ok(queue)
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
            paused_until: paused_until(&row, now)?,
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
    /// When who has waited longest joined it: of those with a certificate, and of those without.
    first: [Option<Timestamp>; 2],
}

impl Queue {
    fn is_waiting(&self) -> bool {
        self.first.iter().any(Option::is_some)
    }

    /// Where those begin who may be taken. Nobody waits at all where none is known to have joined before now.
    fn begins(&self) -> [Timestamp; 2] {
        self.first.map(|first| first.map_or(self.now, |first| first.min(self.now)))
    }
}

async fn take(
    transaction: &mut Transaction<'_, Postgres>,
    who: &Claimant,
    account: AccountId,
    room: &Room,
    allowed: u32,
    hold: Duration,
    queue: &Queue,
) -> Result<Vec<Claimed>> {
    let [renewing, new] = queue.begins().map(super::time);
    let base = room.budget.taken(room.now, 0).full_at().unwrap_or(room.now);
    let statement = sql(TAKE)
        .bind(&*who.instance)
        .bind(who.incarnation)
        .bind(micros(hold))
        .bind(i64::from(allowed))
        .bind(account.0)
        .bind(known_states())
        .bind(micros(room.budget.cost()))
        .bind(super::time(base))
        .bind(known_wants())
        .bind(i64::from(turns_of_new(room.turn, allowed)))
        .bind(renewing)
        .bind(new);
    let (work, aside) = sorted_out(&transaction.rows(statement).await?)?;
    if !aside.is_empty() {
        let statement = sql(PUT_ASIDE).bind(aside.clone()).bind(who.incarnation);
        transaction.execute(statement).await?;
        transaction.execute(sql(UNORDER).bind(aside)).await?;
    }
    Ok(work)
}
