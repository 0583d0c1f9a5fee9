//! The queue for orders: pause, budget and open orders are seen in the same transaction that takes.

use std::time::Duration;

use holdfast_model::Timestamp;

use super::{
    SqliteStore, Tx, known_states, known_wants,
    moment::BUDGET,
    now, sql, time,
    work::{lapse_delay, read_claimed, take_claim},
};
use crate::{
    AccountId, Admission, Claimant, Claimed, Error, OrderLimits, Result,
    budget::Room,
    lane::turns_of_new,
    row::{Fields as _, budget, paused_until},
};

/// In the queue, and in nobody's hands. `$1` is the time.
macro_rules! queued {
    ($now:literal) => {
        concat!(
            "queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL AND (claimed_until IS NULL OR claimed_until <= ",
            $now,
            ")"
        )
    };
}

const WAITING: &str =
    concat!("SELECT EXISTS (SELECT 1 FROM domain WHERE ", queued!("$1"), ") AS waiting");
const ACCOUNT: &str =
    "SELECT paused_until, paused_at, budget_at, turn FROM acme_account WHERE id = $1";

/// Those who may be given an order, with or without a certificate, who has waited longest first.
macro_rules! waiting {
    ($new:literal) => {
        concat!(
            "FROM domain WHERE ",
            queued!("$5"),
            " AND state IN (SELECT value FROM json_each($6)) AND (wanted IS NULL OR wanted IN (SELECT value FROM json_each($7)))
              AND (certificate_id IS NULL) = ",
            $new
        )
    };
}

/// Those of domains parked in a failure are open, but nobody works on them, and they must not hold up others.
const IN_FLIGHT: &str = "
    SELECT count(*) AS n FROM acme_order o JOIN domain d ON d.id = o.domain_id
    WHERE o.account_id = $1 AND o.ended_at IS NULL
      AND d.state NOT IN ('AcmeChallengeFailed', 'CertificateDownloadFailed')";

/// `$8` is how many of the orders are first offered to those without a certificate.
const TAKE: &str = concat!(
    "WITH renewing AS MATERIALIZED (SELECT id ",
    waiting!("0"),
    " ORDER BY queued_at, id LIMIT $4 - (SELECT count(*) FROM (SELECT 1 ",
    waiting!("1"),
    " LIMIT $8))),
    new AS MATERIALIZED (SELECT id ",
    waiting!("1"),
    " ORDER BY queued_at, id LIMIT $4 - (SELECT count(*) FROM renewing))
    UPDATE domain SET order_id = randomblob(16), ",
    take_claim!(),
    " WHERE id IN (SELECT id FROM renewing UNION ALL SELECT id FROM new) RETURNING id"
);
const ORDER: &str = "
    INSERT INTO acme_order (id, domain_id, account_id, cost, created_at) VALUES ($1, $2, $3, $4, $5)";
const SPEND: &str = "UPDATE acme_account SET budget_at = $2, turn = turn + $3 WHERE id = $1";

impl SqliteStore {
    pub(super) async fn admit_queued(
        &self,
        who: &Claimant,
        account: AccountId,
        limits: OrderLimits,
        limit: u32,
        hold: Duration,
    ) -> Result<Admission> {
        let now = now();
        let row = self.readers.one("look at the queue", sql(WAITING).bind(time(now))).await?;
        if limit == 0 || !row.flag("waiting")? {
            return Ok(Admission { now, work: Vec::new(), ask_again_at: None });
        }
        let mut transaction = self.writer.begin("admit orders").await?;
        // The wait for the writer is not part of the claims.
        let now = super::now();
        let room = room(&mut transaction, account, limits, now).await?;
        let allowed = room.allowed(limits).min(limit);
        let work = match allowed {
            0 => Vec::new(),
            _ => take(&mut transaction, who, account, &room, allowed, hold).await?,
        };
        transaction.commit().await?;
        let ask_again_at = room.ask_again_at(&work, allowed);
        Ok(Admission { now, work, ask_again_at })
    }
}

async fn room(
    transaction: &mut Tx,
    account: AccountId,
    limits: OrderLimits,
    now: Timestamp,
) -> Result<Room> {
    let row = transaction.row(sql(ACCOUNT).bind(account.0)).await?;
    let row = row.ok_or(Error::NotFound("account"))?;
    let mut left = budget(&row, limits)?;
    if left.is_beyond_capacity(now) {
        let mended = sql(BUDGET).bind(account.0).bind(time(now));
        left = budget(&transaction.one(mended).await?, limits)?;
    }
    Ok(Room {
        now,
        paused_until: paused_until(&row, now)?,
        budget: left,
        in_flight: transaction.one(sql(IN_FLIGHT).bind(account.0)).await?.count("n")?,
        turn: row.number("turn")?,
    })
}

async fn take(
    transaction: &mut Tx,
    who: &Claimant,
    account: AccountId,
    room: &Room,
    allowed: u32,
    hold: Duration,
) -> Result<Vec<Claimed>> {
    let statement = sql(TAKE)
        .bind(&*who.instance)
        .bind(who.incarnation)
        .bind(time(room.now.plus(hold)))
        .bind(i64::from(allowed))
        .bind(time(room.now))
        .bind(known_states())
        .bind(known_wants())
        .bind(i64::from(turns_of_new(room.turn, allowed)));
    let taken = transaction.rows(statement).await?;
    let work = read_claimed(transaction, who, &taken).await?;
    let cost = i64::try_from(room.budget.cost().as_micros()).unwrap_or(i64::MAX);
    for claimed in &work {
        let statement = sql(ORDER)
            .bind(claimed.order.map(|order| order.0))
            .bind(claimed.domain.id.0)
            .bind(account.0)
            .bind(cost)
            .bind(time(room.now));
        transaction.execute(statement).await?;
    }
    let count = u32::try_from(work.len()).unwrap_or(u32::MAX);
    let spent = room.budget.taken(room.now, count).full_at();
    let spend = sql(SPEND).bind(account.0).bind(super::maybe_time(spent)).bind(i64::from(count));
    transaction.execute(spend).await?;
    Ok(work)
}
