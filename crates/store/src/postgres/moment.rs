//! Brings back what a wrong clock left in the future. Rows that were written later than now stand
//! at the end of an index.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::AGES_DOUBTED;

use super::{PostgresStore, collision_free, micros, sql};
use crate::{
    Fence, Moments, Result, Search, Topic,
    lane::lane,
    moment::{CLAIM_LEFT, COUNTED, FARTHEST_DUE, LONGEST_PAUSE, TOLERANCE, WRITTEN},
    row::Fields as _,
};

/// Written in the future, or claimed for longer than anybody claims. `$1` and `$2` are the bounds.
macro_rules! wrong {
    () => {
        "NOT pruned AND greatest(updated_at, claimed_until) > statement_timestamp() + $1 * interval '1 microsecond'
         AND (updated_at > statement_timestamp() + $1 * interval '1 microsecond'
              OR claimed_until > statement_timestamp() + $2 * interval '1 microsecond')"
    };
}

/// What was written in the future is due now: whoever looks at it decides anew. Whoever is at work
/// on it goes on. By an array each row is looked up; joined, whole tables may be read.
const DOMAINS: &str = concat!(
    "WITH wrong AS MATERIALIZED (
        SELECT id, greatest(updated_at - statement_timestamp(), interval '0') AS ahead,
            updated_at > statement_timestamp() + $1 * interval '1 microsecond' AS written,
            claimed_until > statement_timestamp() + $2 * interval '1 microsecond' IS TRUE AS overlong,
            claimed_until > statement_timestamp() IS TRUE AS held
        FROM domain WHERE ",
    wrong!(),
    "   ORDER BY greatest(updated_at, claimed_until) DESC LIMIT $3 FOR UPDATE SKIP LOCKED),
    deployments AS (
        UPDATE deployment p SET updated_at =
            least(p.updated_at - (SELECT ahead FROM wrong w WHERE w.id = p.domain_id), statement_timestamp())
        WHERE p.domain_id = ANY (ARRAY(SELECT id FROM wrong)) AND p.updated_at > statement_timestamp()),
    observations AS (
        UPDATE observation o SET seen_at =
            least(o.seen_at - (SELECT ahead FROM wrong w WHERE w.id = o.domain_id), statement_timestamp())
        WHERE o.domain_id = ANY (ARRAY(SELECT id FROM wrong)) AND o.seen_at > statement_timestamp()),
    mended AS (
        UPDATE domain d SET updated_at = least(d.updated_at, statement_timestamp()),
            entered_at = least(d.entered_at, statement_timestamp()),
            failing_since = CASE WHEN d.failing_since IS NOT NULL THEN least(d.failing_since, statement_timestamp()) END,
            queued_at = CASE WHEN d.queued_at IS NOT NULL THEN least(d.queued_at, statement_timestamp()) END,
            removing_since = CASE WHEN d.removing_since IS NOT NULL THEN least(d.removing_since, statement_timestamp()) END,
            next_attempt_at = CASE WHEN w.written AND d.next_attempt_at IS NOT NULL THEN least(d.next_attempt_at, statement_timestamp())
                                   ELSE d.next_attempt_at END,
            claimed_until = CASE WHEN w.overlong THEN statement_timestamp() + $4 * interval '1 microsecond' ELSE d.claimed_until END,
            due_at = CASE WHEN w.overlong THEN statement_timestamp() + $4 * interval '1 microsecond'
                          WHEN w.held OR NOT w.written THEN d.due_at
                          WHEN d.due_at IS NOT NULL OR (d.state = 'Failed' AND d.removed_at IS NULL) THEN statement_timestamp() END
        FROM wrong w WHERE d.id = w.id RETURNING d.id)
    SELECT count(*) AS n FROM mended"
);

/// Due later than anything of its lane can be.
macro_rules! farthest {
    ($lane:literal) => {
        concat!(
            "(SELECT id FROM domain WHERE ",
            lane!(),
            " = ",
            $lane,
            " AND due_at > statement_timestamp() + $1 * interval '1 microsecond' ORDER BY due_at DESC LIMIT $2)"
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

const DUE: &str = concat!(
    "WITH far AS MATERIALIZED (",
    too_far!(),
    "), held AS (SELECT id FROM domain WHERE id IN (SELECT id FROM far) ORDER BY id FOR UPDATE SKIP LOCKED)
    UPDATE domain d SET due_at = statement_timestamp(), updated_at = statement_timestamp() FROM held WHERE d.id = held.id RETURNING d.id"
);

/// What the orders of the last three hours cost: no more can be missing from a budget, which
/// refills within that time. Of more orders than are read, the budget counts as spent.
macro_rules! made_cost {
    () => {
        "(SELECT CASE WHEN count(*) FILTER (WHERE o.cost > 0) >= 1000 THEN interval '3 hours'
                ELSE coalesce(sum(o.cost) FILTER (WHERE o.counts), 0)::bigint * interval '1 microsecond' END FROM (
            (SELECT cost, created_at > statement_timestamp() - interval '3 hours' AS counts FROM acme_order
             WHERE account_id = a.id AND ended_at IS NULL LIMIT 1000)
            UNION ALL
            (SELECT cost, account_id = a.id AND url IS NOT NULL AND created_at > statement_timestamp() - interval '3 hours'
             FROM acme_order WHERE ended_at > statement_timestamp() - interval '3 hours' AND cost > 0 ORDER BY ended_at DESC LIMIT 1000)) o)"
    };
}

/// A budget that is further away than its capacity, as it can honestly be.
pub(super) const BUDGET: &str = concat!(
    "UPDATE acme_account a SET budget_at = least(a.budget_at, statement_timestamp() + ",
    made_cost!(),
    ") WHERE a.id = $1 RETURNING a.budget_at"
);
const BUDGETS: &str = concat!(
    "UPDATE acme_account a SET budget_at = statement_timestamp() + ",
    made_cost!(),
    " WHERE a.budget_at > statement_timestamp() + $1 * interval '1 microsecond' AND a.budget_at > statement_timestamp() + ",
    made_cost!()
);
const PAUSES: &str = "
    UPDATE acme_account SET paused_at = statement_timestamp(),
        paused_until = least(paused_until - greatest(paused_at - statement_timestamp(), interval '0'),
                             statement_timestamp() + $1 * interval '1 microsecond')
    WHERE paused_at > statement_timestamp() OR paused_until > statement_timestamp() + $1 * interval '1 microsecond'";
/// Beyond the longest; what was noted in the future and ends sooner is told right when it is read.
const WAITS: &str = "
    UPDATE ca_wait SET noted_at = least(noted_at, statement_timestamp()), until = least(
        until - greatest(noted_at - statement_timestamp(), interval '0'), statement_timestamp() + $1 * interval '1 microsecond')
    WHERE until > statement_timestamp() + $1 * interval '1 microsecond'";

/// It lasts as long as it was set for.
const HALTS: &str = "
    UPDATE account_halt SET halted_at = statement_timestamp(), halted_until = halted_until - (halted_at - statement_timestamp())
    WHERE halted_at > statement_timestamp() + $1 * interval '1 microsecond'";

const DELIVERIES: &str = "
    UPDATE delivery SET due_at = statement_timestamp() WHERE number IN (
        SELECT d.number FROM webhook w CROSS JOIN LATERAL (
            SELECT number FROM delivery WHERE webhook_id = w.id AND due_at > statement_timestamp() + $1 * interval '1 microsecond'
            ORDER BY due_at DESC LIMIT $2) d)";
/// Its age decides how long it is tried.
const CREATED: &str = "
    UPDATE delivery SET created_at = statement_timestamp() WHERE number IN (
        SELECT d.number FROM webhook w JOIN delivery d ON d.webhook_id = w.id AND d.ended_at IS NULL
            AND d.created_at > statement_timestamp() + $1 * interval '1 microsecond')";
const EDGES: &str = "
    UPDATE edge SET last_seen_at = statement_timestamp() WHERE last_seen_at > statement_timestamp() + $1 * interval '1 microsecond'";
const REPLICAS: &str = "
    UPDATE replica SET beat_at = statement_timestamp() WHERE beat_at > statement_timestamp() + $1 * interval '1 microsecond'";

/// Until when ages are doubted. A text that is cast only where it is this setting's.
macro_rules! doubted {
    () => {
        "(SELECT value::timestamptz AS until FROM setting WHERE key = 'ages_doubted_until' OFFSET 0)"
    };
}

const DOUBT: &str = "
    INSERT INTO setting (key, value)
    VALUES ('ages_doubted_until', (clock_timestamp() + $1 * interval '1 microsecond')::text)
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";
const BELIEVE: &str = "DELETE FROM setting WHERE key = 'ages_doubted_until'";
const DOUBTED: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM ",
    doubted!(),
    " d WHERE d.until > clock_timestamp()) AS doubted"
);
const DOUBTS: &str = concat!(
    "UPDATE setting SET value = (statement_timestamp() + $1 * interval '1 microsecond')::text
     FROM ",
    doubted!(),
    " d WHERE key = 'ages_doubted_until' AND d.until > statement_timestamp() + $1 * interval '1 microsecond'"
);

const COUNT: &str = concat!(
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM domain WHERE ",
    wrong!(),
    " LIMIT 1000) n)
    + (SELECT count(*) FROM (SELECT 1 FROM acme_account WHERE paused_at > statement_timestamp() + $1 * interval '1 microsecond'
           OR budget_at > statement_timestamp() + $3 * interval '1 microsecond'
           OR paused_until > statement_timestamp() + $6 * interval '1 microsecond') n)
    + (SELECT count(*) FROM (SELECT 1 FROM webhook w JOIN delivery d ON d.webhook_id = w.id
           AND d.due_at > statement_timestamp() + $4 * interval '1 microsecond' LIMIT 1000) n)
    + (SELECT count(*) FROM (SELECT 1 FROM webhook w JOIN delivery d ON d.webhook_id = w.id AND d.ended_at IS NULL
           AND d.created_at > statement_timestamp() + $1 * interval '1 microsecond' LIMIT 1000) n)
    + (SELECT count(*) FROM (SELECT 1 FROM ca_wait WHERE until > statement_timestamp() + $6 * interval '1 microsecond' LIMIT 1000) n)
    + (SELECT count(*) FROM edge WHERE last_seen_at > statement_timestamp() + $5 * interval '1 microsecond')
    + (SELECT count(*) FROM replica WHERE beat_at > statement_timestamp() + $5 * interval '1 microsecond')
    + (SELECT count(*) FROM ",
    doubted!(),
    " d WHERE d.until > statement_timestamp() + $7 * interval '1 microsecond') AS n"
);

const COUNT_DUE: &str = concat!("SELECT count(*) AS n FROM (", too_far!(), ") f");

#[async_trait]
impl Moments for PostgresStore {
    async fn bring_back(&self, fence: Option<&Fence>, search: Search, limit: u32) -> Result<u64> {
        let brought = collision_free(|| self.bring_all_back(fence, search, limit)).await?;
        if brought > 0 {
            self.herald.tell(&[Topic::Work]);
        }
        Ok(brought)
    }

    async fn out_of_bounds(&self) -> Result<u64> {
        let search = Search::Impossible;
        let count = sql(COUNT)
            .bind(micros(WRITTEN))
            .bind(micros(search.claim()))
            .bind(micros(search.budget()))
            .bind(micros(search.delivery()))
            .bind(micros(TOLERANCE))
            .bind(micros(LONGEST_PAUSE))
            .bind(micros(AGES_DOUBTED));
        let count = self.pool.one("count moments out of bounds", count).await?.number("n")?;
        let due = sql(COUNT_DUE).bind(micros(FARTHEST_DUE)).bind(COUNTED);
        let due = self.pool.one("count what is due too late", due).await?.number("n")?;
        Ok(u64::try_from(count.saturating_add(due)).unwrap_or(0))
    }

    async fn doubt_ages(&self, rest: Option<Duration>) -> Result<()> {
        let statement = rest.map_or_else(|| sql(BELIEVE), |rest| sql(DOUBT).bind(micros(rest)));
        self.pool.execute("note a jump of the clock", statement).await?;
        Ok(())
    }

    async fn are_ages_doubtful(&self) -> Result<bool> {
        self.pool.one("look for a jump of the clock", sql(DOUBTED)).await?.flag("doubted")
    }
}

impl PostgresStore {
    async fn bring_all_back(
        &self,
        fence: Option<&Fence>,
        search: Search,
        limit: u32,
    ) -> Result<u64> {
        let limit = i64::from(limit);
        let mut transaction = self.fenced("bring moments back", fence).await?;
        // Edges before domains, as who takes their reports locks them.
        let mut brought = 0;
        for statement in [EDGES, REPLICAS] {
            let statement = sql(statement).bind(micros(TOLERANCE));
            brought += transaction.execute(statement).await?.rows_affected();
        }
        let domains = sql(DOMAINS)
            .bind(micros(WRITTEN))
            .bind(micros(search.claim()))
            .bind(limit)
            .bind(micros(CLAIM_LEFT));
        let domains = transaction.one(domains).await?.number("n")?;
        brought += u64::try_from(domains).unwrap_or(0);
        let due = sql(DUE).bind(micros(FARTHEST_DUE)).bind(limit);
        brought += transaction.execute(due).await?.rows_affected();
        for (statement, bound) in [
            (BUDGETS, search.budget()),
            (PAUSES, LONGEST_PAUSE),
            (WAITS, LONGEST_PAUSE),
            (HALTS, TOLERANCE),
            (CREATED, WRITTEN),
            (DOUBTS, AGES_DOUBTED),
        ] {
            let statement = sql(statement).bind(micros(bound));
            brought += transaction.execute(statement).await?.rows_affected();
        }
        let deliveries = sql(DELIVERIES).bind(micros(search.delivery())).bind(limit);
        brought += transaction.execute(deliveries).await?.rows_affected();
        around(Point::STORE_TRANSITION, transaction.commit()).await?;
        Ok(brought)
    }
}
