//! An edge comes, or goes for good: by a person's word, or because it is of another group now.
//!
//! Whatever it said goes with it in one transaction, so that nothing can be taken for the word of an edge of the same name that
//! comes later.

use holdfast_gateway::point::{Point, around};
use sqlx::Postgres;
use uuid::Uuid;

use super::{REGISTER, sql};
use crate::{
    Actor, Error, NewEdge, RemovedEdge, Result, Topic,
    pool::Transaction,
    postgres::{PostgresStore, domain::due_unless_claimed, event},
    row::Fields as _,
};

const LOCK: &str = "SELECT id, edge_group FROM edge WHERE name = $1 FOR UPDATE";

/// It may have been seen serving a million names, which no index lists by edge: a report must not pay for what happens so rarely.
const UNHURRIED: &str = "
    SELECT set_config('statement_timeout', '10min', true), set_config('enable_seqscan', 'on', true)";

const REVOKE: &str = "
    UPDATE token SET revoked_at = clock_timestamp() WHERE edge = $1 AND scope = 'edge' AND revoked_at IS NULL RETURNING name";

/// What waits for it need not. A domain that is being removed looks again by itself soon.
const NUDGE: &str = concat!(
    "WITH waiting AS (SELECT id FROM domain WHERE state = 'CertificateDeploying' AND edge_group = $1 AND removed_at IS NULL
        ORDER BY id FOR NO KEY UPDATE)
    UPDATE domain d SET nudged = true, ",
    due_unless_claimed!(),
    " FROM waiting w WHERE d.id = w.id"
);

/// In this order: whoever finishes a domain's removal takes its row before what was seen of it, too.
const FORGET: [&str; 4] = [
    "DELETE FROM stranger WHERE edge_id = $1",
    "DELETE FROM adoption WHERE edge_id = $1",
    "DELETE FROM observation WHERE edge_id = $1",
    "DELETE FROM edge WHERE id = $1",
];

impl PostgresStore {
    /// Makes an edge known; one of that name in another group goes first.
    pub(super) async fn take_in(&self, new: &NewEdge) -> Result<()> {
        let (name, group) = (new.name.as_str(), new.group.as_str());
        let mut transaction = self.pool.begin("register an edge").await?.unhurried();
        let before = locked(&mut transaction, name).await?;
        let moved = before.filter(|(_, of)| *of != group);
        if let Some((id, of)) = &moved {
            forget(&mut transaction, *id, of).await?;
        }
        let register = sql(REGISTER).bind(Uuid::now_v7()).bind(name).bind(group);
        if transaction.execute(register).await?.rows_affected() == 0 {
            // One of another group came between our look and our write.
            transaction.abandon().await?;
            return Err(Error::HolderVanished);
        }
        around(Point::STORE_OBSERVE, transaction.commit()).await?;
        if moved.is_some() {
            self.herald.tell(&[Topic::Work, Topic::Deployments]);
        }
        Ok(())
    }

    pub(super) async fn dismiss(&self, name: &str, actor: &Actor) -> Result<Option<RemovedEdge>> {
        let mut transaction = self.pool.begin("remove an edge").await?.unhurried();
        let Some((id, group)) = locked(&mut transaction, name).await? else {
            transaction.abandon().await?;
            return Ok(None);
        };
        let tokens = transaction.rows(sql(REVOKE).bind(name)).await?;
        let tokens = tokens.iter().map(|row| row.text("name")).collect::<Result<_>>()?;
        forget(&mut transaction, id, &group).await?;
        let removed = RemovedEdge { group, tokens };
        let told = removed.told(name);
        event::note(&mut transaction, actor, "edge-removed", name, &told).await?;
        around(Point::STORE_OBSERVE, transaction.commit()).await?;
        self.herald.tell(&[Topic::Work, Topic::Deployments, Topic::Events]);
        Ok(Some(removed))
    }
}

async fn locked(
    transaction: &mut Transaction<'_, Postgres>,
    name: &str,
) -> Result<Option<(Uuid, String)>> {
    let row = transaction.row(sql(LOCK).bind(name)).await?;
    row.map(|row| Ok((row.id("id")?, row.text("edge_group")?))).transpose()
}

async fn forget(
    transaction: &mut Transaction<'_, Postgres>,
    edge: Uuid,
    group: &str,
) -> Result<()> {
    transaction.execute(sql(UNHURRIED)).await?;
    transaction.execute(sql(NUDGE).bind(group)).await?;
    for table in FORGET {
        transaction.execute(sql(table).bind(edge)).await?;
    }
    Ok(())
}
