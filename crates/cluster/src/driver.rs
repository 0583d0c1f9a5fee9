//! The one driver of singleton work: runs the tasks of a lease, one after another, each when it is due, as long as the lease is
//! held. When a task is due next is kept in the store, so that a new holder goes on where the last one was.

use std::{sync::Arc, time::Duration};

use holdfast_lease::Work;
use holdfast_store::{Fence, Progress, SharedStore, TaskRun};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    StoreClock,
    task::{Outcome, Task, chain, is_fenced},
};

/// How often the driver shows that it lives, and how often it promises to.
const BEAT: Duration = Duration::from_secs(30);
const PROMISE: Duration = Duration::from_secs(300);
/// How long a task that has more to do goes on before the others have their turn.
const BUDGET: Duration = Duration::from_secs(1);
/// How long a store that fails is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How long what drops by age waits before it is tried again.
const DOUBTED: Duration = Duration::from_secs(60);
/// What has not changed is told again after this long.
const RETELL: Duration = Duration::from_secs(60);

/// Whose work it is.
pub(crate) struct Driver {
    pub(crate) store: SharedStore,
    pub(crate) instance: String,
    pub(crate) tasks: Vec<Task>,
    pub(crate) clock: StoreClock,
}

/// A task and when its turn is.
struct Turn<'a> {
    task: &'a Task,
    due: Instant,
    /// Runs since the last that was told of.
    untold: u64,
    told: Option<(Instant, bool, String)>,
}

/// What stops the work, and what its writes are fenced with.
pub(crate) struct Watch {
    pub(crate) work: Option<Work>,
    pub(crate) fence: Option<Fence>,
    pub(crate) stopping: CancellationToken,
}

impl Watch {
    async fn ended(&self) {
        match &self.work {
            Some(work) => tokio::select! {
                () = work.cancelled() => {}
                () = self.stopping.cancelled() => {}
            },
            None => self.stopping.cancelled().await,
        }
    }

    fn beat(&self) {
        if let Some(work) = &self.work {
            work.beat();
        }
    }
}

impl Driver {
    /// Runs until told to stop.
    pub(crate) async fn run(self: Arc<Self>, watch: Watch) {
        if let Some(work) = &watch.work {
            work.promise(PROMISE);
        }
        tokio::select! {
            () = watch.ended() => {}
            () = self.turns(&watch) => {}
        }
    }

    async fn turns(&self, watch: &Watch) {
        let mut turns = self.plan().await;
        loop {
            watch.beat();
            let Some(turn) = turns.iter_mut().min_by_key(|turn| turn.due) else {
                return std::future::pending().await;
            };
            let now = Instant::now();
            if turn.due > now {
                sleep_until(turn.due.min(now + BEAT)).await;
                continue;
            }
            if !self.take(turn, watch.fence.as_ref()).await {
                return;
            }
        }
    }

    /// When each is due, as the last holder left it.
    async fn plan(&self) -> Vec<Turn<'_>> {
        let known = loop {
            match self.store.tasks().await {
                Ok(known) => break known,
                Err(error) => {
                    tracing::warn!(error = chain(&error), "when tasks are due cannot be read");
                    sleep(PAUSE).await;
                }
            }
        };
        let due = |task: &Task| {
            let known = known.iter().find(|known| known.name == task.name);
            Instant::now() + known.map_or(Duration::ZERO, |known| known.next_in.min(task.every))
        };
        let turn = |task| Turn { task, due: due(task), untold: 0, told: None };
        self.tasks.iter().map(turn).collect()
    }

    /// Runs a task; false when the lease is another's.
    async fn take(&self, turn: &mut Turn<'_>, fence: Option<&Fence>) -> bool {
        let begun = Instant::now();
        if turn.task.is_by_age() && self.are_ages_doubtful().await {
            turn.due = begun + DOUBTED;
            return true;
        }
        let outcome = activate(turn.task, fence, begun).await;
        let took = begun.elapsed();
        // Who has more to do comes again behind all that are due by now.
        let more = outcome.as_ref().is_ok_and(|progress| progress.more);
        turn.due = if more { Instant::now() } else { begun + turn.task.every };
        turn.untold += 1;
        metrics::counter!("holdfast_task_runs_total", "task" => turn.task.name, "outcome" => if outcome.is_ok() { "ok" } else { "failed" })
            .increment(1);
        match &outcome {
            Err(error) if is_fenced(error.as_ref()) => return false,
            Err(error) => {
                let error = chain(error.as_ref());
                tracing::warn!(task = turn.task.name, error, "put off");
            }
            Ok(Progress { done: 0, .. }) => {}
            Ok(progress) => tracing::debug!(task = turn.task.name, done = progress.done, "done"),
        }
        self.tell(turn, fence, took, &outcome).await
    }

    /// Also where only another replica saw the clock jump, or none did, or nobody can tell.
    async fn are_ages_doubtful(&self) -> bool {
        if self.clock.doubts_ages() || self.clock.off_by().is_some() {
            return true;
        }
        self.store.are_ages_doubtful().await.unwrap_or_else(|error| {
            tracing::warn!(error = chain(&error), "nothing is dropped by its age for now");
            true
        })
    }

    async fn tell(
        &self,
        turn: &mut Turn<'_>,
        fence: Option<&Fence>,
        took: Duration,
        outcome: &Outcome,
    ) -> bool {
        let (ok, words) = match outcome {
            Ok(Progress { done: 0, .. }) => (true, "nothing to do".to_owned()),
            Ok(Progress { done, more: false }) => (true, format!("{done} done")),
            Ok(Progress { done, more: true }) => (true, format!("{done} done, and more to do")),
            Err(error) => (false, chain(error.as_ref())),
        };
        let same = turn.told.as_ref().is_some_and(|(at, was_ok, said)| {
            at.elapsed() < RETELL && *was_ok == ok && *said == words
        });
        if same {
            return true;
        }
        let run = TaskRun {
            name: turn.task.name.to_owned(),
            lease: turn.task.lease.to_owned(),
            instance: self.instance.clone(),
            runs: turn.untold,
            took,
            ok,
            outcome: words.chars().take(500).collect(),
            next_in: turn.due.saturating_duration_since(Instant::now()),
        };
        match self.store.record_task(fence, &run).await {
            Ok(()) => {
                turn.untold = 0;
                turn.told = Some((Instant::now(), ok, words));
                true
            }
            Err(error) if is_fenced(&error) => false,
            Err(error) => {
                tracing::warn!(task = turn.task.name, error = chain(&error), "not recorded");
                true
            }
        }
    }
}

/// One step after another until nothing is left or the time is up.
async fn activate(task: &Task, fence: Option<&Fence>, begun: Instant) -> Outcome {
    let mut done = 0;
    loop {
        let step = task.run(fence.cloned()).await?;
        done += step.done;
        if !step.more || begun.elapsed() >= BUDGET {
            return Ok(Progress { done, ..step });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use holdfast_model::{ClockSample, ClockWatch};
    use holdfast_store::{Error, MasterKey, OpenOptions};
    use holdfast_testkit::Scratch;

    use super::*;
    use crate::{
        MAINTENANCE,
        clock::{boot, own},
    };

    const HOUR: Duration = Duration::from_secs(3600);

    /// A clock that went ahead by so much, so long ago.
    fn jumped(by: Duration, ago: Duration) -> StoreClock {
        let (mut watch, said) = (ClockWatch::default(), own());
        let noticed = boot().checked_sub(ago).expect("this machine runs for longer");
        let sample = |at, said| ClockSample { asked: at, answered: at, said };
        watch.notice(sample(noticed.saturating_sub(Duration::from_secs(1)), said));
        watch.notice(sample(noticed, said.plus(by)));
        StoreClock::from(watch)
    }

    /// Does work that drops by age run under this clock? Other work does.
    async fn drops(clock: StoreClock, noted: Option<Duration>) -> bool {
        let directory = Scratch::new().unwrap();
        let url = format!("sqlite:{}", directory.path().join("holdfast.db").display());
        let key = Some(MasterKey::generate().unwrap());
        let store = holdfast_store::open(&url, key, OpenOptions::default()).await.unwrap();
        store.doubt_ages(noted).await.unwrap();
        let runs: [Arc<AtomicU64>; 2] = Default::default();
        let task = |name, runs: &Arc<AtomicU64>| {
            let runs = runs.clone();
            Task::new(name, MAINTENANCE, HOUR, move |_| {
                runs.fetch_add(1, Ordering::SeqCst);
                async { Ok::<_, Error>(1) }
            })
        };
        let tasks = vec![task("drop", &runs[0]).by_age(), task("count", &runs[1])];
        let driver = Driver { store, instance: "here".to_owned(), tasks, clock };
        for turn in &mut driver.plan().await {
            assert!(driver.take(turn, None).await);
        }
        let [dropped, counted] = runs.map(|runs| runs.load(Ordering::SeqCst));
        assert_eq!(counted, 1);
        dropped == 1
    }

    #[tokio::test]
    async fn a_clock_in_good_order_drops_what_is_old() {
        assert!(drops(StoreClock::default(), None).await);
    }

    #[tokio::test]
    async fn a_clock_that_has_just_stepped_drops_nothing() {
        assert!(!drops(jumped(HOUR / 60, Duration::ZERO), None).await);
        assert!(drops(jumped(HOUR / 60, Duration::from_secs(61)), None).await, "it has settled");
    }

    #[tokio::test]
    async fn a_clock_that_jumped_far_drops_nothing_also_once_it_has_settled() {
        assert!(!drops(jumped(2 * HOUR, Duration::from_secs(61)), None).await);
    }

    #[tokio::test]
    async fn a_jump_that_only_another_replica_saw_holds_back_too() {
        assert!(!drops(StoreClock::default(), Some(HOUR)).await);
        assert!(drops(StoreClock::default(), Some(Duration::ZERO)).await, "a day later");
    }
}
