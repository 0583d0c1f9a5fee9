//! Takes names away: off the list on disk, out of memory, and then the file.

use std::collections::{BTreeSet, HashSet};

use holdfast_model::{Hostname, Note};

use super::disk::Disk;
use super::memory::{self, Memory};
use super::runtime::Runtime;
use super::{HaproxyTarget, State};
use crate::{Error, Result};

impl HaproxyTarget {
    pub(super) async fn take_away(
        &self,
        state: &mut State,
        runtime: &mut Runtime,
        names: &[Hostname],
    ) -> Result<Vec<Result<(), Note>>> {
        let going: HashSet<_> = names.iter().cloned().collect();
        let memory = Memory::read(runtime).await?;
        let disk = state.disk()?;
        for name in names {
            let served = disk.entries.get(name).map(|entry| entry.print.sha256_hex());
            self.remember_withdrawn(name, served);
        }
        if let Err(error) = disk.write_list(&going).await {
            return Ok(names.iter().map(|_| Err(error.note())).collect());
        }
        let mut results = Vec::with_capacity(names.len());
        for name in names {
            results.push(match take_one(disk, runtime, &memory, name).await {
                Ok(()) => Ok(()),
                Err(
                    error @ (Error::ProxyRefused { .. } | Error::Disk { .. } | Error::File { .. }),
                ) => Err(error.note()),
                Err(error) => return Err(error),
            });
        }
        disk.write_adopted()?;
        state.orphans.retain(|name| !going.contains(name));
        Ok(results)
    }
}

async fn take_one(
    disk: &mut Disk,
    runtime: &mut Runtime,
    memory: &Memory,
    name: &Hostname,
) -> Result<()> {
    let file = disk.file(name);
    // A file of somebody else's that has the name of one of ours.
    if !disk.is_ours(&file) {
        return Ok(());
    }
    let is_adopted = disk.entries.get(name).is_some_and(|entry| entry.adopted.is_some());
    let own = disk.crt_list.to_str();
    let places = memory.places(&file).into_iter().map(|(list, _)| list);
    // What is ours by its place left our list before.
    let lists: BTreeSet<_> = places.filter(|list| is_adopted || Some(*list) != own).collect();
    let lists: Vec<_> = lists.into_iter().map(|list| memory.list(list)).collect();
    if !lists.is_empty() {
        let gone = HashSet::from([file.clone()]);
        let unlist = move || lists.iter().try_for_each(|list| list.unlist(&gone));
        disk.turn.blocking(unlist).await?;
    }
    memory::remove(runtime, memory, &file).await?;
    disk.entries.remove(name);
    disk.remove(file).await
}
