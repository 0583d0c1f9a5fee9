//! The queue for orders. The account's row is locked for one short transaction, in which pause, budget and open orders
//! are seen as they are; so the limits hold over all replicas.

use std::time::Duration;

use sqlx::Postgres;

use super::{
    PostgresStore, known_states, known_wants, micros,
    moment::BUDGET,
    sql,
    work::{PUT_ASIDE, take_claim},
};
use crate::{
    AccountId, Admission, Claimant, Claimed, Error, OrderLimits, Result,
    budget::Room,
    lane::turns_of_new,
    pool::Transaction,
    query::order::IN_FLIGHT,
    row::{Fields as _, budget, domain_columns, paused_until, sorted_out},
};

/// In the queue, and in nobody's hands.
macro_rules! queued {
    () => {
        "queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
         AND (claimed_until IS NULL OR claimed_until <= statement_timestamp())"
    };
}

const WAITING: &str = concat!(
    "SELECT clock_timestamp() AS now, EXISTS (SELECT 1 FROM domain WHERE ",
    queued!(),
    ") AS waiting"
);

const LOCK: &str = "
    SELECT a.paused_until, a.paused_at, a.budget_at, t.turn, clock_timestamp() AS now FROM acme_account a CROSS JOIN order_turn t
    WHERE a.id = $1 FOR UPDATE OF a";

/// Those who may be given an order, with or without a certificate, who has waited longest first.
macro_rules! waiting {
    ($new:literal) => {
        concat!(
            "FROM domain WHERE ",
            queued!(),
            " AND state = ANY ($6) AND (wanted IS NULL OR wanted = ANY ($9)) AND (certificate_id IS NULL) IS ",
            $new
        )
    };
}

/// `$10` is how many of the orders are first offered to those without a certificate.
const TAKE: &str = concat!(
    "WITH renewing AS (SELECT id ",
    waiting!("false"),
    " ORDER BY queued_at, id LIMIT $4 - (SELECT count(*) FROM (SELECT 1 ",
    waiting!("true"),
    " LIMIT $10) n) FOR UPDATE SKIP LOCKED),
    new AS (SELECT id ",
    waiting!("true"),
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
        let row = self.pool.one("look at the queue", sql(WAITING)).await?;
        let now = row.at("now")?;
        if limit == 0 || !row.flag("waiting")? {
            return Ok(Admission { now, work: Vec::new(), ask_again_at: None });
        }
        let mut transaction = self.pool.begin("admit orders").await?;
        let room = room(&mut transaction, account, limits).await?;
        let allowed = room.allowed(limits).min(limit);
        let work = match allowed {
            0 => Vec::new(),
            _ => take(&mut transaction, who, account, &room, allowed, hold).await?,
        };
        transaction.commit().await?;
        let ask_again_at = room.ask_again_at(&work, allowed);
        Ok(Admission { now: room.now, work, ask_again_at })
    }
}

async fn room(
    transaction: &mut Transaction<'_, Postgres>,
    account: AccountId,
    limits: OrderLimits,
) -> Result<Room> {
    let row =
        transaction.row(sql(LOCK).bind(account.0)).await?.ok_or(Error::NotFound("account"))?;
    // A statement of its own: only now, with the lock held, are all earlier admissions seen.
    let in_flight = transaction.one(sql(IN_FLIGHT).bind(account.0)).await?.count("n")?;
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

async fn take(
    transaction: &mut Transaction<'_, Postgres>,
    who: &Claimant,
    account: AccountId,
    room: &Room,
    allowed: u32,
    hold: Duration,
) -> Result<Vec<Claimed>> {
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
        .bind(i64::from(turns_of_new(room.turn, allowed)));
    let (work, aside) = sorted_out(&transaction.rows(statement).await?)?;
    if !aside.is_empty() {
        let statement = sql(PUT_ASIDE).bind(aside.clone()).bind(who.incarnation);
        transaction.execute(statement).await?;
        transaction.execute(sql(UNORDER).bind(aside)).await?;
    }
    Ok(work)
}
