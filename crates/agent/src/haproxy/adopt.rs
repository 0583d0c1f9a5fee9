//! Takes files over that are none of ours: from then on they are renewed and removed like our own, in their place.

use std::collections::HashSet;

use holdfast_model::Note;
use holdfast_store::Adoption;

use super::disk::{Disk, Entry};
use super::{HaproxyTarget, State};
use crate::checked::Print;
use crate::turn::blocking;
use crate::{Error, Result};

impl HaproxyTarget {
    /// What is in a file stays until a certificate is put there; that it is ours is kept first.
    pub(super) async fn take_over(
        &self,
        state: &mut State,
        adoptions: &[Adoption],
    ) -> Result<Vec<Result<(), Note>>> {
        let mut results = Vec::with_capacity(adoptions.len());
        let mut taken = HashSet::new();
        for adoption in adoptions {
            let done = self.take_one_over(state, adoption).await;
            if matches!(done, Ok(true)) {
                taken.insert(adoption.file.clone());
            }
            results.push(done.map(drop).map_err(|error| error.note()));
        }
        if !taken.is_empty() {
            state.disk()?.write_adopted()?;
            state.strangers.forget_all(&taken);
        }
        Ok(results)
    }

    /// Was it taken over just now?
    async fn take_one_over(&self, state: &mut State, adoption: &Adoption) -> Result<bool> {
        let refuse = |why: String| Error::NotAdoptable { file: adoption.file.clone(), why };
        let disk = state.disk.as_mut().ok_or(Error::Stopped)?;
        if is_adopted(disk, adoption) {
            return Ok(false);
        }
        let Some(stranger) = state.strangers.by_file(&adoption.file) else {
            return Err(refuse("HAProxy has not loaded a file of that name".to_owned()));
        };
        let others: Vec<_> =
            stranger.names.iter().filter(|name| *name != adoption.name.as_str()).collect();
        if !others.is_empty() {
            return Err(refuse(format!(
                "it is also served for {}, which would stop",
                some(&others)
            )));
        }
        let file = adoption.file.clone();
        let print = blocking(move || {
            let pem = std::fs::read(&file).map_err(|source| Error::File { path: file, source })?;
            Print::of_pem(&pem)
                .ok_or_else(|| Error::Unconfigurable("it holds no certificate".to_owned()))
        });
        let print = print.await.map_err(|error| refuse(crate::error::chain(&error)))?;
        let mut entry = Entry::new(print, Some(adoption.file.clone()));
        (entry.loaded, entry.listed) = (stranger.sha256 == Some(print.sha256_hex()), true);
        disk.entries.insert(adoption.name.clone(), entry);
        tracing::info!(name = %adoption.name, file = adoption.file, "a file was taken over");
        Ok(true)
    }
}

/// The first of them, and how many more there are.
fn some(names: &[&String]) -> String {
    const SHOWN: usize = 5;
    let first: Vec<_> = names.iter().take(SHOWN).map(|name| name.as_str()).collect();
    match names.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more", first.join(", ")),
        _ => first.join(", "),
    }
}

fn is_adopted(disk: &Disk, adoption: &Adoption) -> bool {
    let entry = disk.entries.get(&adoption.name);
    entry.and_then(|entry| entry.adopted.as_ref()) == Some(&adoption.file)
}
