//! The queue for orders: pause, budget and open orders are seen in the same transaction that takes.

use std::{collections::HashSet, time::Duration};

use holdfast_model::Timestamp;

use super::{
    SqliteStore, Tx, known_states, known_wants,
    moment::BUDGET,
    now, sql, time,
    work::{lapse_delay, read_claimed, take_claim},
};
use crate::{
    AccountId, Admission, Claimant, Claimed, Error, OrderLimits, Result,
    budget::{Allowed, Room},
    row::{Fields as _, budget, closed, given, pause},
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

/// Who renews at no cost, who has a certificate and is charged all the same, and who has none: the kinds of the index `domain_waiting`.
macro_rules! kind {
    (renewing) => {
        "renews = 1 AND (certificate_id IS NULL) = 0"
    };
    (charged) => {
        "renews = 0 AND (certificate_id IS NULL) = 0"
    };
    (new) => {
        "renews = 0 AND (certificate_id IS NULL) = 1"
    };
}

macro_rules! is_queued {
    ($kind:tt) => {
        concat!("EXISTS (SELECT 1 FROM domain WHERE ", queued!("$1"), " AND ", kind!($kind), ")")
    };
}

/// The queue and the account, without the writer: a queue that is closed costs no more than this.
const WAITING: &str = concat!(
    "SELECT ",
    is_queued!(renewing),
    " AS renewing, ",
    is_queued!(charged),
    " OR ",
    is_queued!(new),
    " AS waiting, a.paused_until, a.paused_at, a.budget_at, h.halted_at, h.halted_until, a.id IS NOT NULL AS known
    FROM (SELECT 1) LEFT JOIN acme_account a ON a.id = $2 LEFT JOIN account_halt h ON h.account_id = a.id"
);
const ACCOUNT: &str = "
    SELECT a.paused_until, a.paused_at, a.budget_at, a.turn, h.halted_at, h.halted_until
    FROM acme_account a LEFT JOIN account_halt h ON h.account_id = a.id WHERE a.id = $1";

/// Those of a kind who may be given an order.
macro_rules! waiting {
    ($kind:tt) => {
        concat!(
            "FROM domain WHERE ",
            queued!("$5"),
            " AND state IN (SELECT value FROM json_each($6)) AND (wanted IS NULL OR wanted IN (SELECT value FROM json_each($7))) AND ",
            kind!($kind)
        )
    };
}

/// Those at the head of the queue that are not the renewals they were taken for: their certificate is of another CA or too old by now.
/// `$1` is now, `$2` the account, `$3` how many are looked at.
const SETTLE: &str = concat!(
    "UPDATE domain SET renews = 0 WHERE id IN (SELECT id FROM domain WHERE ",
    queued!("$1"),
    " AND ",
    kind!(renewing),
    " ORDER BY queued_at, id LIMIT $3) AND NOT coalesce((
        SELECT c.directory = (SELECT directory FROM acme_account WHERE id = $2) AND c.created_at > $1 - 10368000000000
        FROM certificate c WHERE c.id = domain.certificate_id), 0)"
);

/// Those of domains parked in a failure are open, but nobody works on them, and they must not hold up others.
const IN_FLIGHT: &str = "
    SELECT count(*) AS n FROM acme_order o JOIN domain d ON d.id = o.domain_id
    WHERE o.account_id = $1 AND o.ended_at IS NULL
      AND d.state NOT IN ('AcmeChallengeFailed', 'CertificateDownloadFailed')";

/// `$8` is how many of the orders are first offered to those without a certificate, `$9` how many may be charged,
/// `$10` how many were found to renew at no cost.
const TAKE: &str = concat!(
    "WITH offered (n) AS MATERIALIZED (SELECT count(*) FROM (SELECT 1 ",
    waiting!(new),
    " LIMIT $8)),
    free AS MATERIALIZED (SELECT id, queued_at, 0 AS charged ",
    waiting!(renewing),
    " ORDER BY queued_at, id LIMIT $10),
    costly AS MATERIALIZED (SELECT id, queued_at, 1 AS charged ",
    waiting!(charged),
    " ORDER BY queued_at, id LIMIT $9 - (SELECT n FROM offered)),
    renewing AS MATERIALIZED (SELECT id, charged FROM (SELECT * FROM free UNION ALL SELECT * FROM costly)
        ORDER BY queued_at, id LIMIT $4 - (SELECT n FROM offered)),
    new AS MATERIALIZED (SELECT id ",
    waiting!(new),
    " ORDER BY queued_at, id LIMIT (SELECT min($4 - count(*), $9 - coalesce(sum(charged), 0)) FROM renewing))
    UPDATE domain SET order_id = randomblob(16), ",
    take_claim!(),
    " WHERE id IN (SELECT id FROM renewing UNION ALL SELECT id FROM new) RETURNING id, renews"
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
        let waiting = sql(WAITING).bind(time(now)).bind(account.0);
        let row = self.readers.one("look at the queue", waiting).await?;
        let renewing = row.flag("renewing")?;
        if limit == 0 || !(renewing || row.flag("waiting")?) {
            return Ok(Admission { now, work: Vec::new(), ask_again_at: None });
        }
        if row.flag("known")?
            && let (true, ask_again_at) = closed(&row, limits, now, renewing)?
        {
            return Ok(Admission { now, work: Vec::new(), ask_again_at });
        }
        let mut transaction = self.writer.begin("admit orders").await?;
        // The wait for the writer is not part of the claims.
        let now = super::now();
        let room = room(&mut transaction, account, limits, now).await?;
        let allowed = room.allowed(limits, limit);
        let settle = sql(SETTLE).bind(time(now)).bind(account.0).bind(i64::from(allowed.orders));
        let settled = transaction.execute(settle).await?.rows_affected();
        // As many more in the place of those that are no renewals were not looked at.
        let renewing = i64::from(allowed.orders) - i64::try_from(settled).unwrap_or(i64::MAX);
        let taking = Taking { who, account, hold, renewing };
        let (work, given) = match allowed.orders {
            0 => (Vec::new(), allowed),
            _ => taking.take(&mut transaction, &room, allowed).await?,
        };
        transaction.commit().await?;
        // Behind those that are no renewals may be more.
        let ask_again_at = if settled > 0 { Some(now) } else { room.ask_again_at(given, allowed) };
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
        pause: pause(&row, now)?,
        budget: left,
        in_flight: transaction.one(sql(IN_FLIGHT).bind(account.0)).await?.count("n")?,
        turn: row.number("turn")?,
    })
}

/// What orders are given out for.
struct Taking<'a> {
    who: &'a Claimant,
    account: AccountId,
    hold: Duration,
    /// How many were found to renew at no cost.
    renewing: i64,
}

impl Taking<'_> {
    /// The work, and how much of what was allowed it took.
    async fn take(
        &self,
        transaction: &mut Tx,
        room: &Room,
        allowed: Allowed,
    ) -> Result<(Vec<Claimed>, Allowed)> {
        let statement = sql(TAKE)
            .bind(&*self.who.instance)
            .bind(self.who.incarnation)
            .bind(time(room.now.plus(self.hold)))
            .bind(i64::from(allowed.orders))
            .bind(time(room.now))
            .bind(known_states())
            .bind(known_wants())
            .bind(i64::from(room.first_for_new(allowed)))
            .bind(i64::from(allowed.charged))
            .bind(self.renewing.max(0));
        let taken = transaction.rows(statement).await?;
        let given = given(&taken)?;
        let mut renewing = HashSet::new();
        for row in &taken {
            renewing.extend(row.flag("renews")?.then_some(row.id("id")?));
        }
        let work = read_claimed(transaction, self.who, &taken).await?;
        let cost = i64::try_from(room.budget.cost().as_micros()).unwrap_or(i64::MAX);
        for claimed in &work {
            let cost = if renewing.contains(&claimed.domain.id.0) { 0 } else { cost };
            let statement = sql(ORDER)
                .bind(claimed.order.map(|order| order.0))
                .bind(claimed.domain.id.0)
                .bind(self.account.0)
                .bind(cost)
                .bind(time(room.now));
            transaction.execute(statement).await?;
        }
        let spent = super::maybe_time(room.budget.taken(room.now, given.charged).full_at());
        let spend = sql(SPEND).bind(self.account.0).bind(spent).bind(i64::from(given.orders));
        transaction.execute(spend).await?;
        Ok((work, given))
    }
}
