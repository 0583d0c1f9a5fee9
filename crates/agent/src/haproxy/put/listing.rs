//! Lists what is loaded: on disk, beside whatever else goes on, and then in memory. What was refused is taken back in between.

use holdfast_model::Hostname;

use super::super::back::take_back;
use super::super::memory::add;
use super::{Portion, Putting, Sent};
use crate::Result;

impl Putting<'_> {
    /// Is it on the list in memory?
    pub(super) fn is_added(&self, name: &Hostname) -> bool {
        self.disk.entries.get(name).is_some_and(|entry| entry.listed)
    }

    /// Is no list being written?
    pub(super) fn is_listed(&self) -> bool {
        self.listing.as_ref().is_none_or(|(_, begun)| begun.is_done())
    }

    /// Begins to list what is loaded; hands over what was listed before. Nothing stays open meanwhile.
    pub(super) async fn list(&mut self) -> Result<()> {
        self.settle().await?;
        self.hand_over().await?;
        self.take_back().await?;
        let portion = std::mem::take(&mut self.loaded);
        let names: Vec<_> = portion.iter().map(|(_, name)| name.clone()).collect();
        if names.iter().any(|name| self.disk.is_off_list(name)) {
            let begun = self.disk.append(&names);
            self.listing = Some((portion, begun));
            return Ok(());
        }
        self.add(portion).await
    }

    /// Takes what was refused off the disk; not while the list is being written.
    pub(super) async fn take_back(&mut self) -> Result<()> {
        let mut done = Ok(());
        for Sent { written, was, .. } in std::mem::take(&mut self.refused) {
            done = done.and(take_back(self.disk, written, was).await);
        }
        done
    }

    /// Ends the portion that is being listed: on the list in memory too, and told of.
    pub(super) async fn hand_over(&mut self) -> Result<()> {
        let Some((portion, begun)) = self.listing.take() else { return Ok(()) };
        let names: Vec<_> = portion.iter().map(|(_, name)| name.clone()).collect();
        if let Err(error) = self.disk.appended(begun, &names).await {
            let note = error.note();
            for (at, _) in portion {
                self.refuse(at, note.clone());
            }
            return Ok(());
        }
        self.add(portion).await
    }

    /// Adds to the list in memory what is not there.
    async fn add(&mut self, portion: Portion) -> Result<()> {
        if portion.is_empty() {
            return Ok(());
        }
        self.stay_connected().await?;
        let (there, new): (Portion, Portion) =
            portion.into_iter().partition(|(_, name)| self.is_added(name));
        let files: Vec<_> =
            new.iter().map(|(_, name)| (self.disk.file(name), name.as_str())).collect();
        let added = add(self.runtime, &self.target.crt_list(), &files).await?;
        for ((at, name), added) in new.into_iter().zip(added) {
            if let Err(error) = added {
                self.refuse(at, error.note());
                continue;
            }
            if let Some(entry) = self.disk.entries.get_mut(&name) {
                entry.listed = true;
            }
            self.is_in_place(at, name);
        }
        for (at, name) in there {
            self.is_in_place(at, name);
        }
        Ok(())
    }
}
