//! The store's clock as this process sees it: carried forward between its answers by the boot
//! clock, so that replicas with different wall clocks decide alike; and watched, because a wall
//! clock steps. When it does, what it left in the future is brought back at once.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use holdfast_lease::clock::{BootClock, Clock as _, Moment};
use holdfast_model::{ClockSample, ClockStep, ClockWatch, Domain, Timestamp};
use holdfast_store::{Fence, Search, SharedStore};
use tokio::{sync::Notify, time::sleep};

use crate::{MAINTENANCE, Task, member::Member, task::chain};

/// Domains that are brought back in one commit, so that none holds up the others for long.
const PART: u32 = 500;
/// How often what a wrong clock left is looked for, also where no step was noticed.
const EVERY: Duration = Duration::from_secs(60);
/// A clock that is so far from this machine's own is wrong, or the machine's is.
const FAR: Duration = Duration::from_secs(3600);
/// How long a store that fails is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// The store's clock. Clones are the same.
#[derive(Clone, Default)]
pub struct StoreClock(Arc<Inner>);

#[derive(Default)]
struct Inner {
    watch: Mutex<ClockWatch>,
    stepped: Notify,
}

/// A question under way.
#[derive(Debug, Clone, Copy)]
pub struct Asked(Duration);

/// What this machine takes for the time.
#[expect(clippy::disallowed_methods, reason = "compared with the store's clock, and nothing else")]
pub(crate) fn own() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_seconds(0).plus(since)
}

pub(crate) fn boot() -> Duration {
    BootClock.now().since(Moment::default())
}

#[cfg(test)]
impl From<ClockWatch> for StoreClock {
    fn from(watch: ClockWatch) -> Self {
        Self(Arc::new(Inner { watch: Mutex::new(watch), stepped: Notify::new() }))
    }
}

impl StoreClock {
    fn watch(&self) -> MutexGuard<'_, ClockWatch> {
        self.0.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before the store is asked for something that tells its time.
    #[must_use]
    pub fn ask(&self) -> Asked {
        Asked(boot())
    }

    /// The store said its time.
    pub fn answered(&self, asked: Asked, said: Timestamp) {
        let sample = ClockSample { asked: asked.0, answered: boot(), said };
        let Some(step) = self.watch().notice(sample) else { return };
        let (direction, by) = (direction(&step), step.by.as_secs_f64());
        tracing::warn!(direction, seconds = by, from = %step.from, to = %step.to, "the database's clock stepped");
        metrics::counter!("holdfast_clock_steps_total", "direction" => direction).increment(1);
        self.0.stepped.notify_one();
    }

    /// The clock has stepped unseen: what was stored is suspicious.
    pub(crate) fn suspect(&self) {
        self.0.stepped.notify_one();
    }

    /// What time the store would say it is.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.watch().now(boot()).unwrap_or(Timestamp::from_seconds(0))
    }

    /// How long until `at`; zero when it has passed.
    #[must_use]
    pub fn until(&self, at: Timestamp) -> Duration {
        at.since(self.now())
    }

    /// The latest step, for as long as people are to be told of it.
    #[must_use]
    pub fn recent_step(&self) -> Option<ClockStep> {
        self.watch().recent_step(boot())
    }

    /// Did it step so lately that it may step back at any moment? Then nothing is done that could
    /// not be undone.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.watch().is_unsettled(boot())
    }

    /// Has it stepped so lately, or jumped so far ahead not long ago, that nothing may be dropped by its age? Another replica may
    /// know of a jump that this one was started after: it is noted in the store.
    #[must_use]
    pub fn doubts_ages(&self) -> bool {
        self.is_unsettled() || self.watch().are_ages_doubtful(boot())
    }

    /// How far it is from this machine's own, ahead or not, where that is so far that one of them must be wrong: it may have jumped before
    /// this process began.
    #[must_use]
    pub fn off_by(&self) -> Option<(bool, Duration)> {
        let (stored, own) = (self.watch().now(boot())?, own());
        let by = stored.since(own).max(own.since(stored));
        (by >= FAR).then_some((stored > own, by))
    }

    /// How long what was stored before a jump looks older than it is.
    fn ages_doubted_for(&self) -> Option<Duration> {
        self.watch().ages_doubted_for(boot())
    }

    /// Has the clock jumped ahead, not back since, and this was told after it?
    #[must_use]
    pub fn jumped_before(&self, at: Timestamp) -> bool {
        self.watch().jumped_before(at)
    }

    /// A domain as the clock of now would have told it: a jump ahead makes nothing fail that had no
    /// more time than before. Only to decide by: what is committed is what is stored.
    #[must_use]
    pub fn retold(&self, domain: &Domain) -> Domain {
        let (now, watch) = (self.now(), self.watch());
        let retold = |at| watch.retold(at, now);
        // What is not due yet is not late either.
        let due = |at| if at > now { at } else { retold(at) };
        Domain {
            entered_at: retold(domain.entered_at),
            next_attempt_at: domain.next_attempt_at.map(due),
            failing_since: domain.failing_since.map(retold),
            removing_since: domain.removing_since.map(retold),
            certificate_since: domain.certificate_since.map(retold),
            ..domain.clone()
        }
    }
}

/// As the log and the metrics call it.
#[must_use]
fn direction(step: &ClockStep) -> &'static str {
    if step.ahead { "ahead" } else { "back" }
}

/// Asks the store for its time, and nothing else.
pub(crate) async fn look(clock: &StoreClock, store: &SharedStore) -> crate::Result<()> {
    let asked = clock.ask();
    clock.answered(asked, store.ping().await?);
    Ok(())
}

/// Did the clock step while no replica was there to see it? Asked before this one writes anything:
/// then no honest moment is later than any clock in good order could have stored.
pub(crate) async fn stepped_unseen(store: &SharedStore) -> bool {
    store.out_of_bounds().await.is_ok_and(|rows| rows > 0)
}

/// Notes a jump and brings moments back whenever the clock stepped, until the replica has left.
pub(crate) async fn follow(member: Arc<Member>) {
    let mut noted = false;
    loop {
        tokio::select! {
            () = member.clock.0.stepped.notified() => {}
            () = member.left.cancelled() => return,
        }
        // Signs of life are told by the clock of now again.
        member.call_again.notify_one();
        loop {
            match mend(&member, &mut noted).await {
                Ok(0) => break,
                Ok(brought) => tracing::warn!(
                    rows = brought,
                    "brought back what the clock had left in the future"
                ),
                Err(error) => {
                    tracing::warn!(error = chain(&error), "moments were not brought back");
                    sleep(PAUSE).await;
                }
            }
            if member.left.is_cancelled() {
                return;
            }
        }
    }
}

/// `noted` says whether a jump of which the store was told still counts.
async fn mend(member: &Member, noted: &mut bool) -> Result<u64, holdfast_store::Error> {
    let (store, doubted) = (&member.settings.store, member.clock.ages_doubted_for());
    if doubted.is_some() || *noted {
        store.doubt_ages(doubted).await?;
        *noted = doubted.is_some();
    }
    bring_back(store, None, Search::Suspicious).await
}

/// The net under it: what was stored by who had not noticed, or while nobody looked.
pub(crate) fn task(member: &Arc<Member>) -> Task {
    let member = member.clone();
    Task::new("bring-moments-back", MAINTENANCE, EVERY, move |fence| {
        let member = member.clone();
        async move { bring_back(&member.settings.store, fence.as_ref(), Search::Impossible).await }
    })
}

async fn bring_back(
    store: &SharedStore,
    fence: Option<&Fence>,
    search: Search,
) -> Result<u64, holdfast_store::Error> {
    let mut all = 0;
    // Bounded: what a run leaves is the next one's.
    for _ in 0..100 {
        let brought = store.bring_back(fence, search, PART).await?;
        all += brought;
        if brought < u64::from(PART) {
            break;
        }
    }
    Ok(all)
}
