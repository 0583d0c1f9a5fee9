//! Follows the changes: applies them, looks, and tries again what did not come out as desired.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use holdfast_model::{Hostname, Note};
use holdfast_store::{Adoption, Change, Changes, Observation, Revision};
use tokio::time::Instant;

use super::outbox::{Outbox, Topic};
use super::progress::Progress;
use super::retry::{REPORTED_FROM, Retries, Task};
use super::trouble::Trouble;
use super::unlisted::Unlisted;
use super::{AgentConfig, within};
use crate::{Adopted, Error, Feed, Inventory, Listing, News, Result, Target};

/// When nothing was seen for so long, what was seen before is reported without the rest of its batch.
const LULL: Duration = Duration::from_millis(50);

/// How long one call waits for a change.
const WAIT: Duration = Duration::from_secs(30);

pub(super) struct Follower<'a> {
    feed: &'a dyn Feed,
    target: &'a dyn Target,
    config: &'a AgentConfig,
    outbox: &'a Outbox,
    retries: Retries,
    at: Revision,
    /// Was there more than the last answer could hold?
    more: bool,
    /// While everything is listed anew, for a target that keeps nothing: the epoch before.
    listing: Option<i64>,
    /// Is what the target holds to be compared with what is to be served?
    comparing: bool,
    /// Is `at` not kept by the control plane any more?
    lost: bool,
    /// What the comparison found to be done.
    backlog: VecDeque<Change>,
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
            retries: Retries::default(),
            at,
            more: false,
            listing: None,
            comparing: true,
            lost: false,
            backlog: VecDeque::new(),
            unlisted: Unlisted::default(),
            progress: Progress::load(config.revision_file.as_deref()),
        }
    }

    /// Runs until the edge must register again.
    pub(super) async fn run(mut self) -> Error {
        let mut trouble = Trouble::new("the edge cannot follow what is to be served");
        loop {
            match self.round().await {
                Ok(()) => {
                    trouble.is_over();
                    self.outbox.complain(Topic::Follow, None);
                }
                Err(Error::Unregistered) => return Error::Unregistered,
                Err(error) => {
                    self.outbox.complain(Topic::Follow, Some(error.note()));
                    trouble.rest_after(&error).await;
                }
            }
        }
    }

    async fn round(&mut self) -> Result<()> {
        self.outbox.room().await;
        if self.comparing {
            self.compare().await?;
            if self.backlog.is_empty() {
                self.settle_up().await?;
            }
        }
        if !self.backlog.is_empty() {
            return self.catch_up().await;
        }
        self.drop_unlisted().await?;
        let news = self.news().await?;
        self.take_over(&news.adoptions).await?;
        let mut tasks: Vec<_> = news.changes.items.into_iter().map(Task::new).collect();
        for task in &tasks {
            self.unlisted.heard_of(&task.change.name);
        }
        let limit = usize::try_from(self.config.batch).unwrap_or(usize::MAX);
        tasks.extend(self.retries.due(Instant::now(), limit, &tasks));
        self.work(tasks).await?;
        (self.at, self.more) = (news.changes.up_to, news.changes.more);
        self.end_listing().await?;
        self.settle_up().await
    }

    /// Everything up to here was seen, or refused.
    async fn settle_up(&mut self) -> Result<()> {
        self.progress.keep(self.at).await?;
        self.outbox.settled(self.retries.settled_up_to(self.at));
        self.outbox.flush();
        Ok(())
    }

    async fn news(&mut self) -> Result<News> {
        let nothing = |at, more| News::from(Changes { items: Vec::new(), up_to: at, more });
        let due = self.retries.next_due();
        let wait = due.map_or(WAIT, |due| WAIT.min(due.saturating_duration_since(Instant::now())));
        if self.retries.is_full() {
            tokio::time::sleep(wait).await;
            return Ok(nothing(self.at, true));
        }
        let wait = if self.more { Duration::ZERO } else { wait };
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

    async fn begin_listing(&mut self) -> Result<()> {
        let (epoch, number) = (self.at.epoch, self.at.number);
        tracing::info!(epoch, number, "the edge's revision is not kept any more: everything is listed anew");
        self.lost = true;
        self.comparing = true;
        self.retries.clear();
        Ok(())
    }

    /// For a target that keeps nothing everything is followed from the beginning.
    async fn start_from_the_beginning(&mut self) -> Result<()> {
        self.target.listing_began().await?;
        self.listing.get_or_insert(self.at.epoch);
        self.at = Revision::default();
        Ok(())
    }

    async fn end_listing(&mut self) -> Result<()> {
        if let Some(epoch) = self.listing
            && !self.more
            && !self.comparing
        {
            self.target.listing_ended(epoch != self.at.epoch).await?;
            self.listing = None;
        }
        Ok(())
    }

    /// Compares what the target holds with what is to be served.
    async fn compare(&mut self) -> Result<()> {
        let Some(inventory) = self.target.inventory().await? else {
            if self.lost {
                self.start_from_the_beginning().await?;
            }
            (self.comparing, self.lost) = (false, false);
            return Ok(());
        };
        let mut listing = within(self.config.listing_limit, self.feed.desired()).await?;
        self.progress.check(listing.revision)?;
        let anew = self.lost || self.at == Revision::default();
        if !anew && listing.revision < self.at {
            return Err(Error::WentBack { seen: self.at, said: listing.revision });
        }
        let restored = self.at != Revision::default() && listing.revision.epoch != self.at.epoch;
        self.compared(inventory, &mut listing, restored);
        self.backlog = listing.items.into();
        if anew {
            self.at = listing.revision;
        }
        (self.comparing, self.lost, self.more) = (false, false, !anew);
        Ok(())
    }

    /// Leaves in the listing what is to be done, and finds what is held without being listed.
    fn compared(&mut self, inventory: Inventory, listing: &mut Listing, restored: bool) {
        let Inventory { mut held, mut strangers } = inventory;
        let (total, listed) = (held.len(), listing.items.len());
        let names: HashSet<&str> = listing.items.iter().map(|item| item.name.as_str()).collect();
        for stranger in &mut strangers {
            stranger.shadows = stranger.names.iter().any(|name| names.contains(name.as_str()));
        }
        self.outbox.strangers(strangers);
        let (at, anew) = (self.at, self.lost || self.at == Revision::default());
        listing.items.retain(|item| {
            let wanted = item.certificate.as_ref().map(|(_, sha256)| sha256);
            let right = held.remove(&item.name).flatten().as_ref() == wanted;
            // What came later than what was reported is told as a change too.
            anew || (item.revision <= at && !right)
        });
        // A restored control plane may have forgotten names that are rightly served.
        let gone = if restored { Vec::new() } else { held.into_keys().collect() };
        let (repairs, gone_count) = (listing.items.len(), gone.len());
        tracing::info!(held = total, listed, repairs, gone = gone_count, "the edge was compared with what is to be served");
        self.unlisted = Unlisted::new(gone, total, listed);
    }

    /// Does a part of what the comparison found.
    async fn catch_up(&mut self) -> Result<()> {
        let batch = usize::try_from(self.config.batch).unwrap_or(usize::MAX);
        let part = self.backlog.iter().take(batch).cloned().map(Task::new).collect();
        self.work(part).await?;
        self.backlog.drain(..batch.min(self.backlog.len()));
        self.outbox.flush();
        if self.backlog.is_empty() { self.settle_up().await } else { Ok(()) }
    }

    /// Takes away what is not listed, once that is believable.
    async fn drop_unlisted(&mut self) -> Result<()> {
        if self.unlisted.is_empty() {
            return Ok(());
        }
        let confirm = self.config.confirm_file.as_deref();
        let names = match self.unlisted.to_drop(confirm) {
            Ok(names) => names.to_vec(),
            Err(error) => {
                self.outbox.complain(Topic::Listing, Some(error.note()));
                return Ok(());
            }
        };
        tracing::info!(names = names.len(), "names that are not to be served any more are taken away");
        let results = self.target.withdraw(&names).await?;
        let mut refused = names.into_iter().zip(results).filter_map(|(name, done)| Some((name, done.err()?)));
        let (left, notes): (Vec<_>, Vec<_>) = refused.by_ref().unzip();
        if left.is_empty()
            && let Some(confirm) = confirm
        {
            // It was meant for these alone.
            std::fs::remove_file(confirm).ok();
        }
        self.unlisted.leave(left);
        self.outbox.complain(Topic::Listing, notes.into_iter().next());
        Ok(())
    }

    /// Takes over the files that a person wants taken over.
    async fn take_over(&mut self, adoptions: &[Adoption]) -> Result<()> {
        if adoptions.is_empty() {
            return Ok(());
        }
        let results = self.target.adopt(adoptions).await?;
        let told = adoptions.iter().zip(results);
        let told = told.map(|(one, done)| Adopted { adoption: one.clone(), error: done.err() });
        self.outbox.adopted(told.collect());
        // What is in the files now may not be what is to be served.
        self.comparing = true;
        Ok(())
    }

    /// Applies and looks. An error leaves everything to be done again.
    async fn work(&mut self, tasks: Vec<Task>) -> Result<()> {
        let mut refusals = self.apply(&tasks).await?;
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
                    None => return Ok(()),
                },
                // Those who were seen need not wait for the slowest.
                () = tokio::time::sleep(LULL) => self.outbox.flush(),
            }
        }
    }

    /// Puts in place what is to be served, and takes away what is not; gives what was refused.
    async fn apply(&self, tasks: &[Task]) -> Result<HashMap<Hostname, Note>> {
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
        Ok(refusals)
    }

    fn settle(&mut self, mut task: Task, seen: Observation) {
        let Some(error) = &seen.error else {
            self.retries.forget(&task.change.name);
            return self.outbox.saw(seen);
        };
        task.failures = task.failures.saturating_add(1);
        let name = &task.change.name;
        if task.failures == REPORTED_FROM {
            tracing::warn!(%name, %error, "the edge does not serve this name as it should");
        }
        if task.failures >= REPORTED_FROM {
            self.outbox.saw(seen);
        }
        self.retries.failed(task, Instant::now());
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
