//! Follows the changes: applies them, looks, and tries again what did not come out as desired.

mod compare;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use holdfast_model::{Hostname, Note};
use holdfast_store::{Change, Changes, Observation, Revision};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::outbox::{Outbox, Topic};
use super::progress::Progress;
use super::retry::{REPORTED_FROM, Retries, Task};
use super::trouble::Trouble;
use super::unlisted::Unlisted;
use super::{AgentConfig, within};
use crate::{Error, Feed, News, Result, Target};

/// When nothing was seen for so long, what was seen before is reported without the rest of its batch.
const LULL: Duration = Duration::from_millis(50);

/// So many are applied while as many are looked at.
const PART: usize = 200;

/// How long one call waits for a change.
const WAIT: Duration = Duration::from_secs(30);

pub(super) struct Follower<'a> {
    feed: &'a dyn Feed,
    target: &'a dyn Target,
    config: &'a AgentConfig,
    outbox: &'a Outbox,
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
    /// Was a name found to be shadowed that the last comparison did not know of?
    shadowed: AtomicBool,
    unlisted: Unlisted,
    progress: Progress,
}

impl<'a> Follower<'a> {
    pub(super) fn new(
        feed: &'a dyn Feed,
        target: &'a dyn Target,
        config: &'a AgentConfig,
        outbox: &'a Outbox,
        at: Revision,
    ) -> Self {
        Self {
            feed,
            target,
            config,
            outbox,
            retries: Mutex::default(),
            at,
            more: false,
            hasty: false,
            listing: None,
            comparing: true,
            lost: false,
            backlog: VecDeque::new(),
            shadowed: AtomicBool::new(false),
            unlisted: Unlisted::default(),
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
        let limit = usize::try_from(self.config.batch).unwrap_or(usize::MAX);
        tasks.extend(self.retries().due(Instant::now(), limit, &tasks));
        self.work(tasks).await?;
        (self.at, self.more) = (news.changes.up_to, news.changes.more);
        self.end_listing().await?;
        self.comparing |= self.shadowed.swap(false, Relaxed);
        self.settle_up().await
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
        let due = self.retries().next_due();
        let wait = due.map_or(WAIT, |due| WAIT.min(due.saturating_duration_since(Instant::now())));
        if self.retries().is_full() {
            tokio::time::sleep(wait).await;
            return Ok(nothing(self.at, true));
        }
        let wait = if self.more || self.hasty { Duration::ZERO } else { wait };
        let ask = within(
            wait + self.config.answer_limit,
            self.feed.changes(self.at, self.config.batch, wait),
        );
        let answer = tokio::select! {
            answer = ask => answer,
            () = self.outbox.was_mended() => {
                self.comparing = true;
                return Ok(nothing(self.at, self.more));
            }
        };
        match answer {
            Err(Error::RevisionGone) if self.at != Revision::default() => {
                self.begin_listing().await?;
                Ok(nothing(self.at, true))
            }
            answer => self.believed(answer?),
        }
    }

    /// Changes lie after what was asked for, up to what they say, and never before what was heard of earlier.
    fn believed(&self, news: News) -> Result<News> {
        let changes = &news.changes;
        self.progress.check(changes.up_to)?;
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

    /// Applies and looks, in parts: while one is looked at, the next is applied. An error leaves everything to be done again.
    async fn work(&self, mut tasks: Vec<Task>) -> Result<()> {
        let mut applied = None;
        while !tasks.is_empty() {
            let rest = tasks.split_off(tasks.len().min(PART));
            let part = std::mem::replace(&mut tasks, rest);
            let refusals = match applied.take() {
                None => self.apply(&part).await?,
                Some((before, refusals)) => {
                    let (refusals, ()) =
                        tokio::join!(self.apply(&part), self.look_at(before, refusals));
                    refusals?
                }
            };
            applied = Some((part, refusals));
        }
        if let Some((last, refusals)) = applied {
            self.look_at(last, refusals).await;
        }
        Ok(())
    }

    async fn look_at(&self, tasks: Vec<Task>, mut refusals: HashMap<Hostname, Note>) {
        let (target, probes) = (self.target, self.config.probes);
        let looks = tasks.into_iter().map(|task| {
            let refused = refusals.remove(&task.change.name);
            async move {
                let seen = look(target, &task.change, refused).await;
                (task, seen)
            }
        });
        let mut looks = stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(probes);
        loop {
            tokio::select! {
                look = looks.next() => match look {
                    Some((task, seen)) => self.settle(task, seen),
                    None => return,
                },
                // Those who were seen need not wait for the slowest.
                () = tokio::time::sleep(LULL) => self.outbox.flush(),
            }
        }
    }

    /// Puts in place what is to be served, and takes away what is not; gives what was refused.
    async fn apply(&self, tasks: &[Task]) -> Result<HashMap<Hostname, Note>> {
        let began = Instant::now();
        let (gone, wanted): (Vec<_>, Vec<_>) = tasks
            .iter()
            .map(|task| task.change.clone())
            .partition(|change| change.certificate.is_none());
        let mut refusals = HashMap::new();
        if !gone.is_empty() {
            let names: Vec<_> = gone.into_iter().map(|change| change.name).collect();
            let results = self.target.withdraw(&names).await?;
            let failed = names.into_iter().zip(results);
            refusals.extend(failed.filter_map(|(name, done)| Some((name, done.err()?))));
        }
        if !wanted.is_empty() {
            let results = self.target.apply(&wanted, self.feed).await?;
            let failed = wanted.into_iter().zip(results);
            refusals.extend(failed.filter_map(|(change, done)| Some((change.name, done.err()?))));
        }
        metrics::histogram!("holdfast_agent_apply_seconds").record(began.elapsed());
        Ok(refusals)
    }

    fn settle(&self, mut task: Task, seen: Observation) {
        let outcome = if seen.error.is_none() { "as-desired" } else { "otherwise" };
        metrics::counter!("holdfast_agent_handshakes_total", "seen" => outcome).increment(1);
        let Some(error) = &seen.error else {
            self.retries().forget(&task.change.name);
            return self.outbox.saw(seen);
        };
        task.failures = task.failures.saturating_add(1);
        let name = &task.change.name;
        if task.failures == REPORTED_FROM {
            // The stranger is told of anew, now as one that shadows a name.
            self.shadowed.fetch_or(error.code == "edge-shadowed", Relaxed);
            tracing::warn!(%name, %error, "the edge does not serve this name as it should");
        }
        if task.failures >= REPORTED_FROM {
            self.outbox.saw(seen);
        }
        self.retries().failed(task, Instant::now());
    }
}

/// Makes the handshake and says whether what it shows is what was wanted.
async fn look(target: &dyn Target, change: &Change, refused: Option<Note>) -> Observation {
    let wanted = change.certificate.as_ref().map(|(_, sha256)| sha256);
    let (sha256, error) = match target.probe(&change.name).await {
        // Whatever was said of applying: what is served is what counts.
        Ok(seen) if seen.as_ref() == wanted => (seen, None),
        Ok(seen) => {
            let note = refused.unwrap_or_else(|| differs(seen.as_ref(), wanted));
            (seen, Some(note))
        }
        Err(error) => (None, Some(refused.unwrap_or_else(|| error.note()))),
    };
    Observation { domain: change.domain, sha256, error }
}

fn differs(seen: Option<&String>, wanted: Option<&String>) -> Note {
    match (seen, wanted) {
        (Some(seen), Some(wanted)) => Note::new(
            "edge-serves-another",
            format!("the edge serves certificate {seen}, not {wanted}"),
        ),
        (None, Some(wanted)) => Note::new(
            "edge-does-not-serve",
            format!("the edge refuses the name; it should serve certificate {wanted}"),
        ),
        (Some(seen), None) => Note::new(
            "edge-still-serves",
            format!("the edge still serves certificate {seen}; the name was withdrawn"),
        ),
        (None, None) => Note::new("edge-does-not-serve", "the edge refuses the name"),
    }
}
