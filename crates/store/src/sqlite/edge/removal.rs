//! An edge comes, or goes for good: by a person's word, or because it is of another group now.
//!
//! Whatever it said goes with it in one transaction, so that nothing can be taken for the word of an edge of the same name that
//! comes later.

use holdfast_gateway::point::{Point, around};
use uuid::Uuid;

use super::{REGISTER, sql};
use crate::{
    Actor, NewEdge, RemovedEdge, Result, Topic,
    row::Fields as _,
    sqlite::{SqliteStore, Tx, domain::due_unless_claimed, event, now, time},
};

const KNOWN: &str = "SELECT id, edge_group FROM edge WHERE name = $1";
const REVOKE: &str = "
    UPDATE token SET revoked_at = $2 WHERE edge = $1 AND scope = 'edge' AND revoked_at IS NULL RETURNING name";

/// What waits for it need not. A domain that is being removed looks again by itself soon.
const NUDGE: &str = concat!(
    "UPDATE domain SET nudged = 1, ",
    due_unless_claimed!(),
    " WHERE state = 'CertificateDeploying' AND edge_group = $1 AND removed_at IS NULL"
);

const FORGET: [&str; 4] = [
    "DELETE FROM stranger WHERE edge_id = $1",
    "DELETE FROM adoption WHERE edge_id = $1",
    "DELETE FROM observation WHERE edge_id = $1",
    "DELETE FROM edge WHERE id = $1",
];

impl SqliteStore {
    /// Makes an edge known; one of that name in another group goes first.
    pub(super) async fn take_in(&self, new: &NewEdge) -> Result<()> {
        let (name, group) = (new.name.as_str(), new.group.as_str());
        let mut transaction = self.writer.begin("register an edge").await?;
        let moved = known(&mut transaction, name).await?.filter(|(_, of)| *of != group);
        if let Some((id, of)) = &moved {
            forget(&mut transaction, *id, of).await?;
        }
        let register = sql(REGISTER).bind(Uuid::now_v7()).bind(name).bind(group).bind(time(now()));
        transaction.execute(register).await?;
        around(Point::STORE_OBSERVE, transaction.commit()).await?;
        if moved.is_some() {
            self.tell(&[Topic::Work, Topic::Deployments]);
        }
        Ok(())
    }

    pub(super) async fn dismiss(&self, name: &str, actor: &Actor) -> Result<Option<RemovedEdge>> {
        let mut transaction = self.writer.begin("remove an edge").await?;
        let Some((id, group)) = known(&mut transaction, name).await? else {
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
}

async fn known(transaction: &mut Tx, name: &str) -> Result<Option<(Uuid, String)>> {
    let row = transaction.row(sql(KNOWN).bind(name)).await?;
    row.map(|row| Ok((row.id("id")?, row.text("edge_group")?))).transpose()
}

async fn forget(transaction: &mut Tx, edge: Uuid, group: &str) -> Result<()> {
    transaction.execute(sql(NUDGE).bind(group).bind(time(now()))).await?;
    for table in FORGET {
        transaction.execute(sql(table).bind(edge)).await?;
    }
    Ok(())
}
