//! Follows the changes: applies them, looks, and tries again what did not come out as desired.

mod apply;
mod compare;
mod look;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_store::{Change, Changes, Observation, Revision};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::apply::Apply;
use self::compare::Found;
use self::look::Looks;
use super::kept::Kept;
use super::outbox::{Outbox, Topic};
use super::progress::Progress;
use super::retry::{REPORTED_FROM, Retries, Task};
use super::trouble::Trouble;
use super::unlisted::Unlisted;
use super::watch::Watch;
use super::{AgentConfig, within};
use crate::{Error, Feed, News, Result, Target};

/// When nothing was seen for so long, what was seen before is reported without the rest of its batch.
const LULL: Duration = Duration::from_millis(50);

/// So many that were seen are reported without waiting for the rest.
const TOLD: usize = 200;

/// When no other name was found to be shadowed for so long, those that were are told of.
const CALM: Duration = Duration::from_secs(1);

/// How long one call waits for a change.
const WAIT: Duration = Duration::from_secs(30);

pub(super) struct Follower<'a> {
    feed: Arc<dyn Feed>,
    target: Arc<dyn Target>,
    config: &'a AgentConfig,
    outbox: &'a Outbox,
    watch: &'a Watch,
    retries: Mutex<Retries>,
    at: Revision,
    /// Was there more than the last answer could hold?
    more: bool,
    /// Is the next answer wanted at once, to know whether what was wrong is over?
    hasty: bool,
    /// While everything is listed anew, for a target that keeps nothing: the epoch before.
    listing: Option<i64>,
    /// Is what the target holds to be compared with what is to be served?
    comparing: bool,
    /// Is `at` not kept by the control plane any more?
    lost: bool,
    /// What the comparison found to be done.
    backlog: VecDeque<Change>,
    /// Names of strangers that were none of ours at the last comparison.
    strange: HashSet<String>,
    /// Was a name found to be shadowed that the last comparison did not know of?
    shadowed: AtomicBool,
    /// When that is looked at: not while more come, since each look is at everything.
    looking_again: Option<Instant>,
    unlisted: Unlisted,
    kept: Kept,
    /// What the control plane was not told yet of the last comparison.
    untold: Option<Found>,
    progress: Progress,
}

impl<'a> Follower<'a> {
    pub(super) fn new(
        feed: Arc<dyn Feed>,
        target: Arc<dyn Target>,
        config: &'a AgentConfig,
        (outbox, watch): (&'a Outbox, &'a Watch),
        at: Revision,
    ) -> Self {
        Self {
            feed,
            target,
            config,
            outbox,
            watch,
            retries: Mutex::default(),
            at,
            more: false,
            hasty: false,
            listing: None,
            comparing: true,
            lost: false,
            backlog: VecDeque::new(),
            strange: HashSet::new(),
            shadowed: AtomicBool::new(false),
            looking_again: None,
            unlisted: Unlisted::default(),
            kept: Kept::load(config.kept_file.as_deref()),
            untold: None,
            progress: Progress::load(config.revision_file.as_deref()),
        }
    }

    /// Runs until the edge must register again, or is to stop; what is being applied is not cut short by that.
    pub(super) async fn run(mut self, stop: &CancellationToken) -> Error {
        let mut trouble = Trouble::new("the edge cannot follow what is to be served");
        loop {
            if stop.is_cancelled() {
                return Error::Stopped;
            }
            match self.round(stop).await {
                Ok(()) => {
                    self.hasty = false;
                    trouble.is_over();
                    self.outbox.complain(Topic::Follow, None);
                }
                Err(reason @ (Error::Unregistered | Error::Stopped)) => return reason,
                Err(error) => {
                    self.hasty = true;
                    self.outbox.complain(Topic::Follow, Some(error.note()));
                    tokio::select! {
                        () = trouble.rest_after(&error) => {}
                        () = stop.cancelled() => return Error::Stopped,
                    }
                }
            }
        }
    }

    async fn round(&mut self, stop: &CancellationToken) -> Result<()> {
        tokio::select! {
            () = self.outbox.room() => {}
            () = stop.cancelled() => return Err(Error::Stopped),
        }
        if self.comparing {
            tokio::select! {
                compared = self.compare() => compared?,
                () = stop.cancelled() => return Err(Error::Stopped),
            }
            if self.backlog.is_empty() {
                self.settle_up().await?;
            }
        }
        self.tell_difference().await;
        if !self.backlog.is_empty() {
            return self.catch_up().await;
        }
        self.drop_unlisted().await?;
        let news = tokio::select! {
            news = self.news() => news?,
            () = stop.cancelled() => return Err(Error::Stopped),
        };
        self.take_over(&news.adoptions).await?;
        let mut tasks: Vec<_> = news.changes.items.into_iter().map(Task::new).collect();
        for task in &tasks {
            self.unlisted.heard_of(&task.change.name);
        }
        if self.kept.heard_of(tasks.iter().map(|task| &task.change.name)).await? {
            self.keeps_fewer();
        }
        let limit = usize::try_from(self.config.batch).unwrap_or(usize::MAX);
        tasks.extend(self.retries().due(Instant::now(), limit, &tasks));
        self.work(tasks).await?;
        (self.at, self.more) = (news.changes.up_to, news.changes.more);
        self.end_listing().await?;
        self.look_again();
        self.settle_up().await
    }

    /// Strangers are told of anew, now as those that shadow a name.
    fn look_again(&mut self) {
        let now = Instant::now();
        if self.shadowed.swap(false, Relaxed) {
            self.looking_again = Some(now + CALM);
        }
        if self.looking_again.is_some_and(|at| at <= now) {
            (self.comparing, self.looking_again) = (true, None);
        }
    }

    /// Everything up to here was seen, or refused.
    async fn settle_up(&mut self) -> Result<()> {
        self.progress.keep(self.at).await?;
        self.outbox.settled(self.retries().settled_up_to(self.at));
        self.outbox.flush();
        let waiting = u32::try_from(self.retries().len()).unwrap_or(u32::MAX);
        metrics::gauge!("holdfast_agent_names_refused").set(waiting);
        Ok(())
    }

    async fn news(&mut self) -> Result<News> {
        let nothing = |at, more| News::from(Changes { items: Vec::new(), up_to: at, more });
        let due = self.retries().next_due().into_iter().chain(self.looking_again).min();
        let wait = due.map_or(WAIT, |due| WAIT.min(due.saturating_duration_since(Instant::now())));
        if self.retries().is_full() {
            tokio::time::sleep(wait).await;
            return Ok(nothing(self.at, true));
        }
        let wait = if self.more || self.hasty { Duration::ZERO } else { wait };
        let asked = Instant::now();
        let ask = within(
            wait + self.config.answer_limit,
            self.feed.changes(self.at, self.config.batch, wait),
        );
        let answer = tokio::select! {
            answer = ask => answer,
            () = self.watch.doubted() => {
                self.take_doubts().await;
                return Ok(nothing(self.at, self.more));
            }
            () = self.outbox.was_mended() => {
                self.comparing = true;
                self.retries().all_due(Instant::now());
                return Ok(nothing(self.at, self.more));
            }
        };
        match answer {
            Err(Error::RevisionGone) if self.at != Revision::default() => {
                self.begin_listing().await?;
                Ok(nothing(self.at, true))
            }
            answer => {
                let news = self.believed(answer?)?;
                // Who answers nothing at once, whatever is asked, is not asked without end.
                let is_nothing = news.changes.items.is_empty()
                    && news.adoptions.is_empty()
                    && news.changes.up_to == self.at;
                if is_nothing && wait > LULL && asked.elapsed() < LULL {
                    tokio::time::sleep(LULL).await;
                }
                Ok(news)
            }
        }
    }

    /// What is not served any more as it was is applied again.
    async fn take_doubts(&self) {
        let doubts = self.watch.take_doubts();
        let names: Vec<_> = doubts.iter().map(|change| change.name.clone()).collect();
        if names.is_empty() {
            return;
        }
        tracing::warn!(
            ?names,
            "names are not served any more as they were; they are applied again"
        );
        self.target.doubt(&names).await;
        let now = Instant::now();
        doubts.into_iter().for_each(|change| self.retries().doubt(change, now));
    }

    /// Changes lie after what was asked for, up to what they say, and never before what was heard of earlier.
    fn believed(&self, news: News) -> Result<News> {
        let changes = &news.changes;
        // What is followed from the beginning comes to the newest revision with its last part.
        let on_its_way = self.listing.is_some() && changes.more;
        if !on_its_way || changes.up_to.epoch != self.progress.newest().epoch {
            self.progress.check(changes.up_to)?;
        }
        let lies = |change: &&Change| {
            let at = change.revision;
            at > changes.up_to || at.epoch != changes.up_to.epoch || at <= self.at
        };
        match changes.items.iter().find(lies) {
            None if changes.up_to >= self.at => Ok(news),
            None => Err(Error::WentBack { seen: self.at, said: changes.up_to }),
            Some(change) => Err(Error::Nonsense(format!(
                "{} is at revision {}, which is not after {} and up to {}",
                change.name, change.revision, self.at, changes.up_to
            ))),
        }
    }

    fn retries(&self) -> MutexGuard<'_, Retries> {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies, and looks at what is in place while the rest is applied. An error leaves everything to be done again.
    async fn work(&self, mut tasks: Vec<Task>) -> Result<()> {
        // The target counts what is to be put in place alone.
        tasks.sort_by_key(|task| task.change.certificate.is_none());
        let changes: Vec<_> = tasks.iter().map(|task| task.change.clone()).collect();
        let (ready, mut places) = mpsc::unbounded_channel();
        let mut looks = Looks::new(self.target.clone(), self.config.probes, tasks);
        let mut apply = Apply::begin(self.target.clone(), self.feed.clone(), changes, ready);
        let (mut applied, mut untold) = (None, 0);
        while applied.is_none() || !looks.is_idle() {
            tokio::select! {
                done = apply.done(), if applied.is_none() => {
                    applied = Some(done.map(|refusals| looks.rest(refusals)));
                }
                Some(at) = places.recv(), if applied.is_none() => looks.begin(at),
                Some((task, seen)) = looks.next() => {
                    self.settle(task, seen);
                    untold += 1;
                }
                // Those who were seen need not wait for the slowest.
                () = tokio::time::sleep(LULL), if untold > 0 => {
                    self.outbox.flush();
                    untold = 0;
                }
            }
            if untold >= TOLD {
                self.outbox.flush();
                untold = 0;
            }
        }
        applied.unwrap_or(Ok(()))
    }

    fn settle(&self, mut task: Task, seen: Observation) {
        let outcome = if seen.error.is_none() { "as-desired" } else { "otherwise" };
        metrics::counter!("holdfast_agent_handshakes_total", "seen" => outcome).increment(1);
        self.shadowed.fetch_or(self.strange.contains(task.change.name.as_str()), Relaxed);
        let Some(error) = &seen.error else {
            self.retries().forget(&task.change.name);
            self.watch.is_served(&task.change);
            if seen.sha256.is_some() {
                self.outbox.complain(Topic::Proxy, None);
            }
            return self.outbox.saw(seen);
        };
        self.watch.forget(&task.change.name);
        task.failures = task.failures.saturating_add(1);
        let name = &task.change.name;
        if task.failures == REPORTED_FROM {
            self.shadowed.fetch_or(error.code == "edge-shadowed", Relaxed);
            tracing::warn!(%name, %error, "the edge does not serve this name as it should");
        }
        if task.failures >= REPORTED_FROM {
            self.outbox.saw(seen);
        }
        self.retries().failed(task, Instant::now());
    }
}
