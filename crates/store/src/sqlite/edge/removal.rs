//! An edge comes, or goes for good: by a person's word, or because it is of another group now.
//!
//! It goes in one short transaction, and counts for nothing from then on: whoever reads what was seen reads it through the edge's row, and an edge
//! of the same name that comes later has another id. What was seen at it may be a million names, which no index lists by edge, because a report
//! must not pay for what happens so rarely: a chore forgets them, some at a time, and goes on where it was whoever is killed.

use holdfast_gateway::point::{Point, around};
use uuid::Uuid;

use super::{REGISTER, live_since, sql};
use crate::{
    Actor, Fence, NewEdge, RemovedEdge, Result, Topic,
    query::departure::{DEPART, DEPARTED, DONE, DONE_TO, FORGET, NEXT, UNSEE, UNSEE_REST},
    row::Fields as _,
    sqlite::{SqliteStore, Tx, domain::due_unless_claimed, event, now, time},
};

const KNOWN: &str = "
    SELECT id, edge_group, error_code IS NULL AND last_seen_at > $2 AND last_seen_at <= $2 + 35000000 AS well FROM edge WHERE name = $1";
const REVOKE: &str = "
    UPDATE token SET revoked_at = $2 WHERE edge = $1 AND scope = 'edge' AND revoked_at IS NULL RETURNING name";

/// What waits for it need not, or can be seen now. Of very many, and of those being removed, each looks again by itself soon.
pub(super) const NUDGE: &str = concat!(
    "UPDATE domain SET nudged = 1, ",
    due_unless_claimed!(),
    " WHERE id IN (SELECT id FROM domain WHERE state = 'CertificateDeploying' AND edge_group = $1 AND removed_at IS NULL LIMIT 5000)"
);

impl SqliteStore {
    /// Makes an edge known; one of that name in another group goes first.
    pub(super) async fn take_in(&self, new: &NewEdge) -> Result<()> {
        let (name, group) = (new.name.as_str(), new.group.as_str());
        let mut transaction = self.writer.begin("register an edge").await?;
        let (moved, back) = match known(&mut transaction, name).await? {
            // What it complained of is forgotten with the registration.
            Some(known) if known.group == group => (None, !known.well),
            other => (other, false),
        };
        if let Some(known) = &moved {
            forget(&mut transaction, known.id, &known.group).await?;
        }
        let register = sql(REGISTER).bind(Uuid::now_v7()).bind(name).bind(group).bind(time(now()));
        transaction.execute(register).await?;
        if back {
            transaction.execute(sql(NUDGE).bind(group).bind(time(now()))).await?;
        }
        around(Point::STORE_OBSERVE, transaction.commit()).await?;
        if moved.is_some() {
            self.tell(&[Topic::Work, Topic::Deployments]);
        } else if back {
            self.tell(&[Topic::Work]);
        }
        Ok(())
    }

    pub(super) async fn dismiss(&self, name: &str, actor: &Actor) -> Result<Option<RemovedEdge>> {
        let mut transaction = self.writer.begin("remove an edge").await?;
        let Some(Known { id, group, .. }) = known(&mut transaction, name).await? else {
            transaction.abandon().await?;
            return Ok(None);
        };
        let tokens = transaction.rows(sql(REVOKE).bind(name).bind(time(now()))).await?;
        let tokens = tokens.iter().map(|row| row.text("name")).collect::<Result<_>>()?;
        forget(&mut transaction, id, &group).await?;
        let removed = RemovedEdge { group, tokens };
        let told = removed.told(name);
        event::note(&mut transaction, actor, "edge-removed", name, &told).await?;
        around(Point::STORE_OBSERVE, transaction.commit()).await?;
        self.tell(&[Topic::Work, Topic::Deployments, Topic::Events]);
        Ok(Some(removed))
    }

    /// One part of what an edge that is gone was seen serving; see [`crate::Maintenance::forget_departed`].
    pub(in crate::sqlite) async fn unsee(
        &self,
        fence: Option<&Fence>,
        limit: u32,
    ) -> Result<Option<u64>> {
        let mut transaction = self.fenced("forget what was seen", fence).await?;
        let Some(edge) = transaction.row(sql(DEPARTED)).await? else {
            transaction.abandon().await?;
            return Ok(None);
        };
        let (id, done_to) = (edge.id("id")?, edge.bytes("done_to")?);
        let next = sql(NEXT).bind(done_to.clone()).bind(i64::from(limit));
        let (forget, done) = match transaction.row(next).await? {
            Some(next) => {
                let next = next.id("domain_id")?;
                let part = sql(UNSEE).bind(id).bind(done_to).bind(next);
                (part, sql(DONE_TO).bind(id).bind(next))
            }
            None => (sql(UNSEE_REST).bind(id).bind(done_to), sql(DONE).bind(id)),
        };
        let forgotten = transaction.execute(forget).await?.rows_affected();
        transaction.execute(done).await?;
        around(Point::STORE_OBSERVE, transaction.commit()).await?;
        Ok(Some(forgotten))
    }
}

/// An edge that there is.
struct Known {
    id: Uuid,
    group: String,
    /// Is it live, without a complaint of itself?
    well: bool,
}

async fn known(transaction: &mut Tx, name: &str) -> Result<Option<Known>> {
    let row = transaction.row(sql(KNOWN).bind(name).bind(live_since())).await?;
    let known = |row: sqlx::sqlite::SqliteRow| {
        Ok(Known { id: row.id("id")?, group: row.text("edge_group")?, well: row.flag("well")? })
    };
    row.map(known).transpose()
}

async fn forget(transaction: &mut Tx, edge: Uuid, group: &str) -> Result<()> {
    transaction.execute(sql(NUDGE).bind(group).bind(time(now()))).await?;
    transaction.execute(sql(DEPART).bind(edge)).await?;
    for table in FORGET {
        transaction.execute(sql(table).bind(edge)).await?;
    }
    Ok(())
}
