//! Holding claims: one batch renews all of them at a third of their time, and work whose claim was lost is
//! stopped where it stands.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdfast_model::DomainId;
use holdfast_store::{Claimant, SharedStore};
use tokio_util::sync::CancellationToken;

/// The claims this engine holds.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<DomainId, (i64, CancellationToken)>>);

impl Holds {
    fn map(&self) -> MutexGuard<'_, HashMap<DomainId, (i64, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to hold a claim; the token ends its work if it is lost.
    pub(crate) fn take(&self, id: DomainId, epoch: i64) -> CancellationToken {
        let token = CancellationToken::new();
        let mut map = self.map();
        map.insert(id, (epoch, token.clone()));
        held(map.len());
        token
    }

    /// Ceases to hold this very claim; a later one on the same domain stays.
    pub(crate) fn drop(&self, id: DomainId, epoch: i64) {
        let mut map = self.map();
        if map.get(&id).is_some_and(|(held, _)| *held == epoch) {
            map.remove(&id);
            held(map.len());
        }
    }

    pub(crate) fn all(&self) -> Vec<(DomainId, i64)> {
        self.map().iter().map(|(id, (epoch, _))| (*id, *epoch)).collect()
    }

    fn lose(&self, ids: &[DomainId], asked: &[(DomainId, i64)]) {
        let mut map = self.map();
        for id in ids {
            let epoch = asked.iter().find(|(asked, _)| asked == id).map(|(_, epoch)| *epoch);
            if map.get(id).is_some_and(|(held, _)| Some(*held) == epoch)
                && let Some((_, token)) = map.remove(id)
            {
                tracing::warn!(domain = %id, "the claim was lost; its work is another's now");
                metrics::counter!("holdfast_claims_lost_total").increment(1);
                token.cancel();
            }
        }
        held(map.len());
    }

    /// Renews until told to stop. An error is not a loss: the claim's own end is.
    pub(crate) async fn renew_for_ever(&self, store: &SharedStore, who: &Claimant, hold: Duration) {
        let mut tick = tokio::time::interval(hold / 3);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let claims = self.all();
            if claims.is_empty() {
                continue;
            }
            match store.renew_claims(who, &claims, hold).await {
                Ok(lost) => self.lose(&lost, &claims),
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "claims were not renewed"
                ),
            }
        }
    }
}

fn held(count: usize) {
    metrics::gauge!("holdfast_claims_held").set(u32::try_from(count).unwrap_or(u32::MAX));
}
