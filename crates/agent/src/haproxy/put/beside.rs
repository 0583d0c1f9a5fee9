//! What is in place beside a file of somebody else's that is to give way: ready only when that one is gone.

use holdfast_model::Hostname;

use super::super::memory::Memory;
use super::super::replace;
use super::Putting;
use crate::{Error, Result};

impl Putting<'_> {
    /// On disk, in memory, and on both lists.
    pub(super) fn is_in_place(&mut self, at: usize, name: Hostname) {
        let mut strangers = self.strangers.all_of(name.as_str());
        match strangers.any(|stranger| self.disk.replacing.has(&stranger.file)) {
            true => self.beside.push((at, name)),
            false => self.is_ready(at, &name),
        }
    }

    /// Files give way whose every name is in place now.
    pub(super) async fn replace(&mut self) -> Result<()> {
        if self.beside.is_empty() {
            return Ok(());
        }
        self.stay_connected().await?;
        let memory = Memory::read(self.runtime).await?;
        let process = self.identity;
        replace::take_away(self.disk, self.runtime, process, &memory, self.strangers).await?;
        // The next comparison tells which strangers are left.
        self.is_in_doubt = true;
        for (at, name) in std::mem::take(&mut self.beside) {
            self.is_in_place(at, name);
        }
        Ok(())
    }

    /// Another name of the same file is not in place, or HAProxy does not let go of it.
    pub(super) fn still_shadowed(&mut self) {
        for (at, name) in std::mem::take(&mut self.beside) {
            let file = self.strangers.of(name.as_str()).map(|one| one.file.clone());
            let (name, file) = (name.to_string(), file.unwrap_or_default());
            self.refuse(at, Error::Shadowed { name, file }.note());
        }
    }
}
