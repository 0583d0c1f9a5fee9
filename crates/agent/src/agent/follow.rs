//! Follows the changes: applies them, looks, and tries again what did not come out as desired.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use holdfast_model::{Hostname, Note};
use holdfast_store::{Change, Changes, Observation, Revision};
use tokio::time::Instant;

use super::outbox::Outbox;
use super::retry::{REPORTED_FROM, Retries, Task};
use super::trouble::Trouble;
use super::{AgentConfig, within};
use crate::{Error, Feed, Result, Target};

/// When nothing was seen for so long, what was seen before is reported without the rest of its batch.
const LULL: Duration = Duration::from_millis(50);

/// How long one call waits for a change.
const WAIT: Duration = Duration::from_secs(20);

pub(super) struct Follower<'a> {
    feed: &'a dyn Feed,
    target: &'a dyn Target,
    config: &'a AgentConfig,
    outbox: &'a Outbox,
    retries: Retries,
    at: Revision,
    /// Was there more than the last answer could hold?
    more: bool,
    /// While everything is listed anew: the epoch before.
    listing: Option<i64>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(
        feed: &'a dyn Feed,
        target: &'a dyn Target,
        config: &'a AgentConfig,
        outbox: &'a Outbox,
        at: Revision,
    ) -> Self {
        let retries = Retries::default();
        Self { feed, target, config, outbox, retries, at, more: false, listing: None }
    }

    /// Runs until the edge must register again.
    pub(super) async fn run(mut self) -> Error {
        let mut trouble = Trouble::new("the edge cannot follow what is to be served");
        loop {
            match self.round().await {
                Ok(()) => {
                    trouble.is_over();
                    self.outbox.complain(None);
                }
                Err(Error::Unregistered) => return Error::Unregistered,
                Err(error) => {
                    self.outbox.complain(Some(error.note()));
                    trouble.rest_after(&error).await;
                }
            }
        }
    }

    async fn round(&mut self) -> Result<()> {
        self.outbox.room().await;
        let changes = self.changes().await?;
        let mut tasks: Vec<_> = changes
            .items
            .iter()
            .map(|change| Task { change: change.clone(), failures: 0 })
            .collect();
        let limit = usize::try_from(self.config.batch).unwrap_or(usize::MAX);
        tasks.extend(self.retries.due(Instant::now(), limit, &tasks));
        self.work(tasks).await?;
        (self.at, self.more) = (changes.up_to, changes.more);
        self.end_listing().await?;
        self.outbox.settled(self.retries.settled_up_to(self.at));
        self.outbox.flush();
        Ok(())
    }

    async fn changes(&mut self) -> Result<Changes> {
        let due = self.retries.next_due();
        let wait = due.map_or(WAIT, |due| WAIT.min(due.saturating_duration_since(Instant::now())));
        if self.retries.is_full() {
            tokio::time::sleep(wait).await;
            return Ok(Changes { items: Vec::new(), up_to: self.at, more: true });
        }
        let wait = if self.more { Duration::ZERO } else { wait };
        let ask = self.feed.changes(self.at, self.config.batch, wait);
        match within(wait + self.config.answer_limit, ask).await {
            Err(Error::RevisionGone) if self.at != Revision::default() => {
                self.begin_listing().await?;
                Ok(Changes { items: Vec::new(), up_to: self.at, more: true })
            }
            answer => answer,
        }
    }

    async fn begin_listing(&mut self) -> Result<()> {
        tracing::info!(
            epoch = self.at.epoch,
            number = self.at.number,
            "the edge's revision is not kept any more: everything is listed anew"
        );
        self.target.listing_began().await?;
        self.listing.get_or_insert(self.at.epoch);
        self.at = Revision::default();
        self.retries.clear();
        Ok(())
    }

    async fn end_listing(&mut self) -> Result<()> {
        if let Some(epoch) = self.listing
            && !self.more
        {
            self.target.listing_ended(epoch != self.at.epoch).await?;
            self.listing = None;
        }
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
        for change in gone {
            if let Err(error) = self.target.withdraw(&change.name).await {
                refusals.insert(change.name, error.note());
            }
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
