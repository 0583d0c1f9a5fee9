//! Takes back from the disk what HAProxy does not take: there it would keep HAProxy from starting.

use std::collections::HashSet;

use holdfast_model::Hostname;

use super::ahead::Written;
use super::disk::{self, Disk, Entry};
use crate::Result;
use crate::checked::Print;

/// The disk gets back what it had before, if HAProxy holds that, or if the file is not only ours; else the name goes from the disk.
pub(super) async fn take_back(disk: &mut Disk, written: Written, was: Option<Entry>) -> Result<()> {
    let Written { name, file, before, .. } = written;
    let held = before.as_deref().and_then(|pem| Print::of_pem(pem));
    let is_known = |was: &Entry| was.loaded && Some(was.print) == held;
    let was = was.filter(|was| was.adopted.is_some() || is_known(was));
    let (Some(was), Some(before)) = (was, before) else { return drop_name(disk, name).await };
    let loaded = is_known(&was);
    disk.entries.insert(name, Entry { print: held.unwrap_or(was.print), loaded, ..was });
    disk.turn.blocking(move || disk::write(file.as_ref(), &before)).await
}

/// Off the list, and then off the disk. What HAProxy holds in memory stays there until it is replaced.
pub(super) async fn drop_name(disk: &mut Disk, name: Hostname) -> Result<()> {
    let file = disk.file(&name);
    if disk.entries.remove(&name).is_some_and(|entry| entry.on_list) {
        disk.write_list(&HashSet::new()).await?;
    }
    disk.remove(file).await
}
