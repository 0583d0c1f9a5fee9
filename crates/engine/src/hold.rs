//! Holding claims: one batch renews all of them at a third of their time, and work whose claim was lost, or has ended by our own clock, is
//! stopped where it stands.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use holdfast_model::DomainId;
use holdfast_store::{CLAIM_LEFT, Claimant, SharedStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The claims this engine holds.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<DomainId, Hold>>);

#[derive(Debug)]
struct Hold {
    epoch: i64,
    /// Ends its work.
    lost: CancellationToken,
    /// Until then it is ours, whatever the store may say: counted from before it was asked.
    until: Instant,
}

impl Holds {
    fn map(&self) -> MutexGuard<'_, HashMap<DomainId, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works under a claim, as long as it lasts. A replica that stood still does not take one step more: what it had asked for before may
    /// have been answered meanwhile, and acting on that is another's now.
    pub(crate) async fn work(
        &self,
        (id, epoch): (DomainId, i64),
        until: Instant,
        work: impl Future<Output = ()>,
    ) {
        let lost = self.take(id, Hold { epoch, lost: CancellationToken::new(), until });
        let mut work = pin!(work);
        let work = std::future::poll_fn(|context| match self.has_ended(id, epoch) {
            true => Poll::Ready(()),
            false => work.as_mut().poll(context),
        });
        tokio::select! {
            biased;
            () = lost.cancelled() => {}
            () = work => {}
        }
    }

    fn take(&self, id: DomainId, hold: Hold) -> CancellationToken {
        let (mut map, lost) = (self.map(), hold.lost.clone());
        match map.get(&id) {
            // It came too late even to begin.
            Some(later) if later.epoch > hold.epoch => lost.cancel(),
            _ => {
                if let Some(before) = map.insert(id, hold) {
                    before.lost.cancel();
                }
            }
        }
        held(map.len());
        lost
    }

    /// One that we ceased to hold, to commit, has not: the store says what becomes of it.
    fn has_ended(&self, id: DomainId, epoch: i64) -> bool {
        let mut map = self.map();
        let has_ended =
            map.get(&id).is_some_and(|hold| hold.epoch == epoch && hold.until <= Instant::now());
        if has_ended {
            map.remove(&id);
            held(map.len());
            count_lost(id);
        }
        has_ended
    }

    /// Ceases to hold this very claim; a later one on the same domain stays.
    pub(crate) fn drop(&self, id: DomainId, epoch: i64) {
        let mut map = self.map();
        if map.get(&id).is_some_and(|hold| hold.epoch == epoch) {
            map.remove(&id);
            held(map.len());
        }
    }

    pub(crate) fn all(&self) -> Vec<(DomainId, i64)> {
        self.map().iter().map(|(id, hold)| (*id, hold.epoch)).collect()
    }

    /// Those that were asked for are held until then, but for these, which were lost.
    fn renewed(&self, asked: &[(DomainId, i64)], lost: &[DomainId], until: Instant) {
        let mut map = self.map();
        for (id, epoch) in asked {
            let Some(hold) = map.get_mut(id).filter(|hold| hold.epoch == *epoch) else { continue };
            if !lost.contains(id) {
                hold.until = until;
                continue;
            }
            hold.lost.cancel();
            map.remove(id);
            count_lost(*id);
        }
        held(map.len());
    }

    /// Renews until told to stop, at a third of what a claim lasts at least: also a long one is cut short when the clock steps. An error is not a loss: the claim's own end is.
    pub(crate) async fn renew_for_ever(&self, store: &SharedStore, who: &Claimant, hold: Duration) {
        let mut tick = tokio::time::interval(pace(hold));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let claims = self.all();
            if claims.is_empty() {
                continue;
            }
            let until = Instant::now() + hold;
            match store.renew_claims(who, &claims, hold).await {
                Ok(lost) => self.renewed(&claims, &lost, until),
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "claims were not renewed"
                ),
            }
        }
    }
}

/// How often claims of this length are renewed.
fn pace(hold: Duration) -> Duration {
    hold.min(CLAIM_LEFT) / 3
}

fn count_lost(id: DomainId) {
    tracing::warn!(domain = %id, "the claim was lost; its work is another's now");
    metrics::counter!("holdfast_claims_lost_total").increment(1);
}

fn held(count: usize) {
    metrics::gauge!("holdfast_claims_held").set(u32::try_from(count).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::Notify;

    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    #[test]
    fn a_claim_that_was_cut_short_is_renewed_in_time() {
        assert_eq!(pace(Duration::from_secs(9)), Duration::from_secs(3));
        for seconds in [30, 91, 3600] {
            assert!(pace(Duration::from_secs(seconds)) * 3 <= CLAIM_LEFT, "{seconds}");
        }
    }

    /// What the work had waited for is there, and so is the claim's end: nothing more is done.
    #[tokio::test(start_paused = true)]
    async fn who_stood_still_past_the_claim_does_nothing_more() {
        let (holds, id, answer, acted) =
            (Holds::default(), DomainId::new(), Notify::new(), Cell::new(false));
        let work = async {
            answer.notified().await;
            acted.set(true);
        };
        let paused = async {
            tokio::time::advance(HOLD).await;
            answer.notify_one();
        };
        tokio::join!(holds.work((id, 1), Instant::now() + HOLD, work), paused);
        assert!(!acted.get() && holds.all().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_was_renewed_or_is_being_committed_lasts() {
        let (holds, id, acted) = (Holds::default(), DomainId::new(), Cell::new(0));
        let work = async {
            let until = Instant::now() + 3 * HOLD;
            holds.renewed(&[(id, 1)], &[], until);
            tokio::time::sleep(2 * HOLD).await;
            acted.set(1);
            holds.drop(id, 1);
            tokio::time::sleep(2 * HOLD).await;
            acted.set(2);
        };
        holds.work((id, 1), Instant::now() + HOLD, work).await;
        assert_eq!(acted.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_lost_or_taken_anew_ends_its_work() {
        let (holds, id) = (Holds::default(), DomainId::new());
        let until = Instant::now() + HOLD;
        let lose = async { holds.renewed(&[(id, 1)], &[id], until) };
        tokio::join!(holds.work((id, 1), until, std::future::pending()), lose);
        let first = holds.work((id, 2), until, std::future::pending());
        let second = holds.work((id, 3), until, std::future::ready(()));
        tokio::join!(first, second);
        holds.work((id, 2), until, std::future::pending()).await;
        assert_eq!(holds.all(), [(id, 3)], "whoever began it lets go of it");
    }
}
