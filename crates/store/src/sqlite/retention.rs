//! Retention: what is over is deleted, each kind by an index range. The file does not shrink by that; new rows take the room.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use uuid::Uuid;

use super::{SqliteStore, Tx, now, sql, time};
use crate::{Fence, Outdated, Progress, Result, Retention, row::Fields as _};

/// What the counts have taken in.
macro_rules! folded {
    () => {
        "id <= (SELECT folded_id FROM event_log)"
    };
}

const NOTICES: &str = concat!(
    "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE domain_id IS NULL AND at < $1 AND ",
    folded!(),
    " ORDER BY at LIMIT $2)"
);
/// How far the history was pruned. What was spared before it is of removed domains, and goes with them.
const HISTORY_PRUNED_TO: &str =
    "SELECT CAST(value AS INTEGER) AS id FROM setting WHERE key = 'history_pruned_to'";
/// From there on the log is in the order of time: so many rows are looked at, and no more.
macro_rules! oldest {
    () => {
        concat!(
            "(SELECT id, at, domain_id FROM event WHERE id > $3 AND ",
            folded!(),
            " ORDER BY id LIMIT $2) o"
        )
    };
}
/// How much it is, and the first that is not old yet.
const HISTORY_SEEN: &str = concat!(
    "SELECT count(*) AS seen, max(id) AS last, min(id) FILTER (WHERE at >= $1) AS young FROM ",
    oldest!()
);
/// The history of a removed domain is kept for as long as the domain.
const HISTORY: &str = concat!(
    "DELETE FROM event WHERE id IN (SELECT o.id FROM ",
    oldest!(),
    " WHERE o.at < $1 AND NOT EXISTS (SELECT 1 FROM domain d WHERE d.id = o.domain_id AND d.removed_at IS NOT NULL))"
);
const HISTORY_PRUNED: &str = "
    INSERT INTO setting (key, value) VALUES ('history_pruned_to', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const CLAIMS: &str = "
    DELETE FROM claim WHERE rowid IN (
        SELECT rowid FROM claim WHERE domain_id IS NULL AND released_at < $1 ORDER BY released_at LIMIT $2)";
const ORDERS: &str = "
    DELETE FROM acme_order WHERE rowid IN (SELECT rowid FROM acme_order WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)";
const CHALLENGES: &str = "
    DELETE FROM challenge WHERE rowid IN (SELECT rowid FROM challenge WHERE created_at < $1 ORDER BY created_at LIMIT $2)";
const CA_WAITS: &str = "
    DELETE FROM ca_wait WHERE rowid IN (SELECT rowid FROM ca_wait WHERE until < $1 ORDER BY until LIMIT $2)";

/// Never one that a domain has or an edge is told to serve.
const CERTIFICATES: &str = "
    DELETE FROM certificate WHERE rowid IN (
        SELECT c.rowid FROM certificate c WHERE c.superseded_at IS NOT NULL AND c.not_after < $1
            AND NOT EXISTS (SELECT 1 FROM domain d WHERE d.id = c.domain_id AND d.certificate_id = c.id AND d.removed_at IS NULL)
            AND NOT EXISTS (SELECT 1 FROM deployment p WHERE p.domain_id = c.domain_id AND p.certificate_id = c.id)
        ORDER BY c.not_after LIMIT $2)
    RETURNING id";
const KEY: &str = "DELETE FROM sealed WHERE owner = 'certificate' AND id = $1";

/// Not while the domain's removal waits for an edge.
const TOMBSTONES: &str = "
    DELETE FROM deployment WHERE rowid IN (
        SELECT p.rowid FROM deployment p WHERE p.certificate_id IS NULL AND p.updated_at < $1
            AND NOT EXISTS (SELECT 1 FROM domain d
                WHERE d.id = p.domain_id AND d.removed_at IS NULL AND d.edge_group = p.edge_group)
        ORDER BY p.updated_at LIMIT $2)
    RETURNING revision";
/// Above what was deleted: who is behind it has not heard of all of that, and lists anew.
const RAISE_FLOOR: &str = "UPDATE revision SET floor = max(floor, $1)";

/// Under a clock that was set back, a removal is older than what it removed.
const REMOVED: &str =
    "SELECT id FROM domain WHERE removed_at < $1 AND created_at < $1 ORDER BY removed_at LIMIT $2";
const REMOVED_EVENTS: &str = concat!(
    "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE domain_id = $1 AND ",
    folded!(),
    " ORDER BY id LIMIT $2)"
);
const REMOVED_CERTIFICATES: &str = "DELETE FROM certificate WHERE domain_id = $1 RETURNING id";
/// What is not folded yet keeps its domain a little longer.
const REMOVED_DOMAIN: &str = "
    DELETE FROM domain WHERE id = $1 AND removed_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM event WHERE domain_id = $1)";

#[async_trait]
impl Retention for SqliteStore {
    async fn prune(
        &self,
        fence: Option<&Fence>,
        what: Outdated,
        age: Duration,
        limit: u32,
    ) -> Result<Progress> {
        let mut transaction = self.fenced(what.at(), fence).await?;
        let old = |text| sql(text).bind(time(now().minus(age))).bind(i64::from(limit));
        let done = match what {
            Outdated::History => {
                let progress = history(&mut transaction, age, limit).await?;
                transaction.commit().await?;
                return Ok(progress);
            }
            Outdated::Notices => transaction.execute(old(NOTICES)).await?.rows_affected(),
            Outdated::Claims => transaction.execute(old(CLAIMS)).await?.rows_affected(),
            Outdated::Orders => transaction.execute(old(ORDERS)).await?.rows_affected(),
            Outdated::Challenges => transaction.execute(old(CHALLENGES)).await?.rows_affected(),
            Outdated::CaWaits => transaction.execute(old(CA_WAITS)).await?.rows_affected(),
            Outdated::Certificates => {
                let gone = transaction.rows(old(CERTIFICATES)).await?;
                for certificate in &gone {
                    transaction.execute(sql(KEY).bind(certificate.id("id")?)).await?;
                }
                u64::try_from(gone.len()).unwrap_or(u64::MAX)
            }
            Outdated::Tombstones => {
                let gone = transaction.rows(old(TOMBSTONES)).await?;
                for tombstone in &gone {
                    transaction
                        .execute(sql(RAISE_FLOOR).bind(tombstone.number("revision")?))
                        .await?;
                }
                u64::try_from(gone.len()).unwrap_or(u64::MAX)
            }
            Outdated::Removed => {
                let mut done = 0;
                for row in transaction.rows(old(REMOVED)).await? {
                    done +=
                        removed(&mut transaction, row.id("id")?, u64::from(limit) - done).await?;
                    if done >= u64::from(limit) {
                        break;
                    }
                }
                done
            }
        };
        if what == Outdated::Challenges {
            around(Point::STORE_CHALLENGE_DROP, transaction.commit()).await?;
        } else {
            transaction.commit().await?;
        }
        Ok(Progress::of(done, limit))
    }
}

/// There may be more as long as something goes or the place moves, also where much is spared.
async fn history(transaction: &mut Tx, age: Duration, limit: u32) -> Result<Progress> {
    let pruned = transaction.row(sql(HISTORY_PRUNED_TO)).await?;
    let from = pruned.map(|row| row.number("id")).transpose()?.unwrap_or(0);
    let old = time(now().minus(age));
    let window = |text| sql(text).bind(old).bind(i64::from(limit)).bind(from);
    let looked = transaction.one(window(HISTORY_SEEN)).await?;
    let done = transaction.execute(window(HISTORY)).await?.rows_affected();
    let young = looked.maybe_number("young")?.map(|young| young - 1);
    let passed = young.or(looked.maybe_number("last")?).filter(|passed| *passed > from);
    if let Some(passed) = passed {
        transaction.execute(sql(HISTORY_PRUNED).bind(passed.to_string())).await?;
    }
    Ok(Progress { done, more: looked.count("seen")? >= limit && (passed.is_some() || done > 0) })
}

/// The history first, as much of it as may go in this step; then the rest. Gives how many rows went.
async fn removed(transaction: &mut Tx, id: Uuid, limit: u64) -> Result<u64> {
    let events = sql(REMOVED_EVENTS).bind(id).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let events = transaction.execute(events).await?.rows_affected();
    if events >= limit {
        return Ok(events);
    }
    for certificate in transaction.rows(sql(REMOVED_CERTIFICATES).bind(id)).await? {
        transaction.execute(sql(KEY).bind(certificate.id("id")?)).await?;
    }
    Ok(events + transaction.execute(sql(REMOVED_DOMAIN).bind(id)).await?.rows_affected())
}
