//! The roll of replicas: says that this one lives, hears who else does, and finds out if its name was taken.

use std::sync::Arc;

use holdfast_store::{Beat, Outage};
use tokio::time::{MissedTickBehavior, interval};

use crate::{Error, clock, member::Member, task::chain};

/// Beats until the replica has left.
pub(crate) async fn call(member: Arc<Member>) {
    let mut tick = interval(member.settings.heartbeat);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = member.call_again.notified() => {}
            () = member.left.cancelled() => return,
            () = member.taken.cancelled() => return,
        }
        let _beating = member.beating.lock().await;
        if member.left.is_cancelled() {
            return;
        }
        if let Err(error) = beat(&member).await {
            metrics::counter!("holdfast_heartbeats_failed_total").increment(1);
            if let Some(outage) = loss(&error) {
                tracing::error!(error = chain(&error), "ends at once");
                member.lost.set(outage).ok();
                return;
            }
            tracing::warn!(error = chain(&error), "the heartbeat was not heard");
        }
    }
}

fn loss(error: &Error) -> Option<Outage> {
    let Error::Store(error) = error else { return None };
    error.outage().filter(|outage| outage.ends_process())
}

async fn beat(member: &Member) -> crate::Result<()> {
    let (store, settings) = (&member.settings.store, &member.settings);
    let (draining, stale) = (member.draining.is_cancelled(), settings.stale);
    let incarnation = member.incarnation();
    clock::look(&member.clock, store).await?;
    match store.beat(&settings.instance, incarnation, draining, stale).await? {
        Beat::Heard(replicas) => {
            member.roll.send_replace(replicas);
        }
        Beat::Unknown => {
            tracing::warn!("this replica was taken for gone and forgotten; it registers again");
            store.register_replica(&member.introduction(), stale).await?;
            member.roll.send_replace(store.replicas(stale).await?);
        }
        Beat::Replaced => {
            tracing::error!(instance = settings.instance, "identity-taken");
            member.taken.cancel();
        }
    }
    Ok(())
}
