//! Brings back what a wrong clock left in the future. Rows that were written later than now stand
//! at the end of an index.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{AGES_DOUBTED, Timestamp};

use super::{SqliteStore, Tx, now, sql, time};
use crate::{
    Fence, Moments, Result, Search, Topic,
    lane::lane,
    moment::{CLAIM_LEFT, COUNTED, FARTHEST_DUE, LONGEST_PAUSE, TOLERANCE, WRITTEN},
    row::Fields as _,
};

/// Written in the future, or claimed for longer than anybody claims. `$1` and `$2` are the latest
/// honest moments.
macro_rules! wrong {
    () => {
        "NOT pruned AND max(updated_at, coalesce(claimed_until, 0)) > $1 AND (updated_at > $1 OR claimed_until > $2)"
    };
}

const WRONG: &str = concat!(
    "SELECT id, max(updated_at - $3, 0) AS ahead FROM domain WHERE ",
    wrong!(),
    " ORDER BY max(updated_at, coalesce(claimed_until, 0)) DESC LIMIT $4"
);
/// What was written in the future is due now: whoever looks at it decides anew. Whoever is at work
/// on it goes on. `$4` is now.
const MEND: &str = "
    UPDATE domain SET updated_at = min(updated_at, $4), entered_at = min(entered_at, $4), failing_since = min(failing_since, $4),
        queued_at = min(queued_at, $4), removing_since = min(removing_since, $4),
        next_attempt_at = CASE WHEN updated_at > $1 THEN min(next_attempt_at, $4) ELSE next_attempt_at END,
        claimed_until = CASE WHEN claimed_until > $2 THEN $3 ELSE claimed_until END,
        due_at = CASE WHEN claimed_until > $2 THEN $3
                      WHEN claimed_until > $4 OR updated_at <= $1 THEN due_at
                      WHEN due_at IS NOT NULL OR (state = 'Failed' AND removed_at IS NULL) THEN $4 END
    WHERE id = $5";
const DEPLOYMENT: &str = "
    UPDATE deployment SET updated_at = min(updated_at - $2, $3) WHERE domain_id = $1 AND updated_at > $3";
const OBSERVATION: &str = "
    UPDATE observation SET seen_at = min(seen_at - $2, $3) WHERE domain_id = $1 AND seen_at > $3";

/// Due later than anything of its lane can be.
macro_rules! farthest {
    ($lane:literal) => {
        concat!(
            "SELECT id FROM (SELECT id FROM domain WHERE due_at > $1 AND ",
            lane!(),
            " = ",
            $lane,
            " ORDER BY due_at DESC LIMIT $2)"
        )
    };
}

macro_rules! too_far {
    () => {
        concat!(
            farthest!("0"),
            " UNION ALL ",
            farthest!("1"),
            " UNION ALL ",
            farthest!("2"),
            " UNION ALL ",
            farthest!("3"),
            " UNION ALL ",
            farthest!("4"),
            " UNION ALL ",
            farthest!("5")
        )
    };
}

const DUE: &str =
    concat!("UPDATE domain SET due_at = $3, updated_at = $3 WHERE id IN (", too_far!(), ")");
const COUNT_DUE: &str = concat!("SELECT count(*) AS n FROM (", too_far!(), ")");

/// What the orders of the last three hours cost: no more can be missing from a budget, which
/// refills within that time. Of more orders than are read, the budget counts as spent.
macro_rules! made_cost {
    ($since:literal) => {
        concat!(
            "(SELECT CASE WHEN count(*) FILTER (WHERE o.cost > 0) >= 1000 THEN 10800000000 ELSE coalesce(sum(o.cost) FILTER (WHERE o.counts), 0) END FROM (
                SELECT * FROM (SELECT cost, created_at > ",
            $since,
            "       AS counts FROM acme_order WHERE account_id = acme_account.id AND ended_at IS NULL LIMIT 1000)
                UNION ALL
                SELECT * FROM (SELECT cost, account_id = acme_account.id AND url IS NOT NULL AND created_at > ",
            $since,
            "       AS counts FROM acme_order WHERE ended_at > ",
            $since,
            "       AND cost > 0 ORDER BY ended_at DESC LIMIT 1000)) o)"
        )
    };
}

/// A budget that is further away than its capacity, as it can honestly be.
pub(super) const BUDGET: &str = concat!(
    "UPDATE acme_account SET budget_at = min(budget_at, $2 + ",
    made_cost!("($2 - 10800000000)"),
    ") WHERE id = $1 RETURNING budget_at"
);
const BUDGETS: &str = concat!(
    "UPDATE acme_account SET budget_at = $2 + ",
    made_cost!("($2 - 10800000000)"),
    " WHERE budget_at > $1 AND budget_at > $2 + ",
    made_cost!("($2 - 10800000000)")
);
const PAUSES: &str = "
    UPDATE acme_account SET paused_at = $2, paused_until = min(paused_until - max(coalesce(paused_at, 0) - $2, 0), $1)
    WHERE paused_at > $2 OR paused_until > $1";
/// Beyond the longest; what was noted in the future and ends sooner is told right when it is read.
const WAITS: &str = "
    UPDATE ca_wait SET noted_at = min(noted_at, $2), until = min(until - max(noted_at - $2, 0), $1) WHERE until > $1";
/// It lasts as long as it was set for.
const HALTS: &str = "
    UPDATE account_halt SET halted_at = $2, halted_until = halted_until - (halted_at - $2) WHERE halted_at > $1";
const EDGES: &str = "UPDATE edge SET last_seen_at = $2 WHERE last_seen_at > $1";
const REPLICAS: &str = "UPDATE replica SET beat_at = $2 WHERE beat_at > $1";
/// Its age decides how long it is tried.
const CREATED: &str = "
    UPDATE delivery SET created_at = $2 WHERE number IN (
        SELECT d.number FROM webhook w CROSS JOIN delivery d
        WHERE d.webhook_id = w.id AND d.ended_at IS NULL AND d.created_at > $1)";
const DELIVERIES: &str = "
    UPDATE delivery SET due_at = $2 WHERE number IN (
        SELECT d.number FROM webhook w CROSS JOIN delivery d WHERE d.webhook_id = w.id AND d.due_at > $1 LIMIT $3)";

const DOUBT: &str = "
    INSERT INTO setting (key, value) VALUES ('ages_doubted_until', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const BELIEVE: &str = "DELETE FROM setting WHERE key = 'ages_doubted_until'";
const DOUBTED: &str = "
    SELECT count(*) AS doubted FROM setting WHERE key = 'ages_doubted_until' AND CAST(value AS INTEGER) > $1";
const DOUBTS: &str = "
    UPDATE setting SET value = $1 WHERE key = 'ages_doubted_until' AND CAST(value AS INTEGER) > $1";

const COUNT: &str = concat!(
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM domain WHERE ",
    wrong!(),
    " LIMIT 1000))
    + (SELECT count(*) FROM acme_account WHERE paused_at > $1 OR budget_at > $3 OR paused_until > $6)
    + (SELECT count(*) FROM (SELECT 1 FROM webhook w CROSS JOIN delivery d WHERE d.webhook_id = w.id AND d.due_at > $4 LIMIT 1000))
    + (SELECT count(*) FROM (SELECT 1 FROM webhook w CROSS JOIN delivery d
           WHERE d.webhook_id = w.id AND d.ended_at IS NULL AND d.created_at > $1 LIMIT 1000))
    + (SELECT count(*) FROM (SELECT 1 FROM ca_wait WHERE until > $6 LIMIT 1000))
    + (SELECT count(*) FROM edge WHERE last_seen_at > $5) + (SELECT count(*) FROM replica WHERE beat_at > $5)
    + (SELECT count(*) FROM setting WHERE key = 'ages_doubted_until' AND CAST(value AS INTEGER) > $7) AS n"
);

#[async_trait]
impl Moments for SqliteStore {
    async fn bring_back(&self, fence: Option<&Fence>, search: Search, limit: u32) -> Result<u64> {
        let mut transaction = self.fenced("bring moments back", fence).await?;
        let now = now();
        let mut brought = mend_domains(&mut transaction, search, now, limit).await?;
        let due =
            sql(DUE).bind(time(now.plus(FARTHEST_DUE))).bind(i64::from(limit)).bind(time(now));
        brought += transaction.execute(due).await?.rows_affected();
        for (statement, bound) in [
            (BUDGETS, search.budget()),
            (PAUSES, LONGEST_PAUSE),
            (WAITS, LONGEST_PAUSE),
            (HALTS, TOLERANCE),
            (CREATED, WRITTEN),
            (EDGES, TOLERANCE),
            (REPLICAS, TOLERANCE),
        ] {
            let statement = sql(statement).bind(time(now.plus(bound))).bind(time(now));
            brought += transaction.execute(statement).await?.rows_affected();
        }
        let doubts = sql(DOUBTS).bind(time(now.plus(AGES_DOUBTED)));
        brought += transaction.execute(doubts).await?.rows_affected();
        let bound = time(now.plus(search.delivery()));
        let deliveries = sql(DELIVERIES).bind(bound).bind(time(now)).bind(i64::from(limit));
        brought += transaction.execute(deliveries).await?.rows_affected();
        around(Point::STORE_TRANSITION, transaction.commit()).await?;
        if brought > 0 {
            self.tell(&[Topic::Work]);
        }
        Ok(brought)
    }

    async fn out_of_bounds(&self) -> Result<u64> {
        let (now, search) = (now(), Search::Impossible);
        let count = sql(COUNT)
            .bind(time(now.plus(WRITTEN)))
            .bind(time(now.plus(search.claim())))
            .bind(time(now.plus(search.budget())))
            .bind(time(now.plus(search.delivery())))
            .bind(time(now.plus(TOLERANCE)))
            .bind(time(now.plus(LONGEST_PAUSE)))
            .bind(time(now.plus(AGES_DOUBTED)));
        let count = self.readers.one("count moments out of bounds", count).await?.number("n")?;
        let due = sql(COUNT_DUE).bind(time(now.plus(FARTHEST_DUE))).bind(COUNTED);
        let due = self.readers.one("count what is due too late", due).await?.number("n")?;
        Ok(u64::try_from(count.saturating_add(due)).unwrap_or(0))
    }

    async fn doubt_ages(&self, rest: Option<Duration>) -> Result<()> {
        let until = |rest| time(now().plus(rest));
        let statement = rest.map_or_else(|| sql(BELIEVE), |rest| sql(DOUBT).bind(until(rest)));
        self.writer.execute("note a jump of the clock", statement).await?;
        Ok(())
    }

    async fn are_ages_doubtful(&self) -> Result<bool> {
        let doubted = sql(DOUBTED).bind(time(now()));
        self.readers.one("look for a jump of the clock", doubted).await?.flag("doubted")
    }
}

async fn mend_domains(
    transaction: &mut Tx,
    search: Search,
    now: Timestamp,
    limit: u32,
) -> Result<u64> {
    let (written, claimed) = (time(now.plus(WRITTEN)), time(now.plus(search.claim())));
    let wrong = sql(WRONG).bind(written).bind(claimed).bind(time(now)).bind(i64::from(limit));
    let wrong = transaction.rows(wrong).await?;
    for row in &wrong {
        let (id, ahead) = (row.id("id")?, row.number("ahead")?);
        for statement in [DEPLOYMENT, OBSERVATION] {
            transaction.execute(sql(statement).bind(id).bind(ahead).bind(time(now))).await?;
        }
        let mend = sql(MEND)
            .bind(written)
            .bind(claimed)
            .bind(time(now.plus(CLAIM_LEFT)))
            .bind(time(now))
            .bind(id);
        transaction.execute(mend).await?;
    }
    Ok(u64::try_from(wrong.len()).unwrap_or(u64::MAX))
}
