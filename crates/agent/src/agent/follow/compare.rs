//! Compares what the target holds with everything that is to be served, and does what differs.

use std::collections::HashSet;

use holdfast_model::Hostname;
use holdfast_store::{Adoption, Change, Names, Revision};

use super::super::outbox::Topic;
use super::super::retry::Task;
use super::super::unlisted::Unlisted;
use super::super::within;
use super::Follower;
use crate::{Adopted, Error, Inventory, Listing, Result};

/// Names on which the target and the control plane do not agree.
pub(super) struct Found {
    unknown: Names,
    /// Where the control plane was restored.
    absent: Option<Names>,
}

fn named(item: &Change) -> String {
    item.name.to_string()
}

impl Follower<'_> {
    pub(super) async fn begin_listing(&mut self) -> Result<()> {
        let (epoch, number) = (self.at.epoch, self.at.number);
        tracing::info!(
            epoch,
            number,
            "the edge's revision is not kept any more: everything is listed anew"
        );
        self.lost = true;
        self.comparing = true;
        self.retries().clear();
        Ok(())
    }

    /// For a target that keeps nothing everything is followed from the beginning.
    async fn start_from_the_beginning(&mut self) -> Result<()> {
        self.target.listing_began().await?;
        self.watch.forget_all();
        self.listing.get_or_insert(self.at.epoch);
        self.at = Revision::default();
        Ok(())
    }

    pub(super) async fn end_listing(&mut self) -> Result<()> {
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
    pub(super) async fn compare(&mut self) -> Result<()> {
        let Some(inventory) = self.target.inventory().await? else {
            self.watch.loads_by_itself();
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
        // An edge that is newer than the backup is not known any more, and begins anew: it remembers by itself.
        let heard = self.at.max(self.progress.newest());
        let restored = heard != Revision::default() && listing.revision.epoch != heard.epoch;
        self.found(inventory, &mut listing, restored).await?;
        self.backlog = listing.items.into();
        if anew {
            self.at = listing.revision;
        }
        (self.comparing, self.lost, self.more) = (false, false, !anew);
        Ok(())
    }

    /// Leaves in the listing what is to be done, and finds what is held without being listed, and the other way round.
    async fn found(
        &mut self,
        inventory: Inventory,
        listing: &mut Listing,
        restored: bool,
    ) -> Result<()> {
        let (held, listed) = (inventory.held.len(), listing.items.len());
        let names = listing.items.iter().map(|item| item.name.clone()).collect();
        // What a restored control plane has too much was perhaps removed after its backup.
        let absent = restored.then(|| {
            let items = listing.items.iter();
            items.filter(|item| !inventory.held.contains_key(&item.name)).map(named).collect()
        });
        let unlisted = self.compared(inventory, listing);
        let (kept, gone) = self.kept.part(unlisted, &names, restored).await?;
        let unknown = kept.iter().map(ToString::to_string).collect();
        self.untold = Some(Found { unknown: Names::of(unknown), absent: absent.map(Names::of) });
        self.unlisted = Unlisted::new(gone, held, listed);
        Ok(())
    }

    /// Of a long list the first names alone were told: when they are known again, the next ones take their places.
    pub(super) fn keeps_fewer(&mut self) {
        let absent = self.untold.take().and_then(|found| found.absent);
        self.untold = Some(Found { unknown: Names::of(self.kept.names()), absent });
    }

    /// Tells what the comparison found. A control plane of the release before does not want to know.
    pub(super) async fn tell_difference(&mut self) {
        let Some(Found { unknown, absent }) = &self.untold else { return };
        let tell = self.feed.difference(unknown, absent.as_ref());
        match within(self.config.answer_limit, tell).await {
            Ok(()) | Err(Error::Refused { .. }) => self.untold = None,
            Err(error) => tracing::debug!(%error, "what differs could not be told yet"),
        }
    }

    fn compared(&mut self, inventory: Inventory, listing: &mut Listing) -> Vec<Hostname> {
        let Inventory { mut held, mut strangers } = inventory;
        let (total, listed) = (held.len(), listing.items.len());
        let names: HashSet<&str> = listing.items.iter().map(|item| item.name.as_str()).collect();
        for stranger in &mut strangers {
            stranger.shadows = stranger.names.iter().any(|name| names.contains(name.as_str()));
        }
        let others = strangers.iter().filter(|stranger| !stranger.shadows);
        self.strange = others.flat_map(|stranger| stranger.names.iter().cloned()).collect();
        self.outbox.strangers(strangers);
        let (at, anew) = (self.at, self.lost || self.at == Revision::default());
        self.watch.forget_all();
        listing.items.retain(|item| {
            let wanted = item.certificate.as_ref().map(|(_, sha256)| sha256);
            let right = held.remove(&item.name).flatten().as_ref() == wanted;
            if right && !anew {
                self.watch.is_served(item);
            }
            // What came later than what was reported is told as a change too.
            anew || (item.revision <= at && !right)
        });
        let gone: Vec<_> = held.into_keys().collect();
        let (repairs, unlisted) = (listing.items.len(), gone.len());
        tracing::info!(
            held = total,
            listed,
            repairs,
            unlisted,
            "the edge was compared with what is to be served"
        );
        gone
    }

    /// Does a part of what the comparison found.
    pub(super) async fn catch_up(&mut self) -> Result<()> {
        let batch = usize::try_from(self.config.batch).unwrap_or(usize::MAX);
        let part = self.backlog.iter().take(batch).cloned().map(Task::new).collect();
        self.work(part).await?;
        self.backlog.drain(..batch.min(self.backlog.len()));
        self.outbox.flush();
        if self.backlog.is_empty() { self.settle_up().await } else { Ok(()) }
    }

    /// Takes away what is not listed, once that is believable.
    pub(super) async fn drop_unlisted(&mut self) -> Result<()> {
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
        tracing::info!(
            names = names.len(),
            "names that are not to be served any more are taken away"
        );
        let results = self.target.withdraw(&names).await?;
        let mut refused =
            names.into_iter().zip(results).filter_map(|(name, done)| Some((name, done.err()?)));
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
    pub(super) async fn take_over(&mut self, adoptions: &[Adoption]) -> Result<()> {
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
}
