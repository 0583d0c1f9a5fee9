//! Takes files over that are none of ours.
//!
//! A file that serves one name alone becomes ours in its place: from then on it is renewed and removed like our own. One that serves
//! several, all of them ours, gives way to a file each ([`replace`](super::replace)), and so does one for a name that we have a file for.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use holdfast_model::{Hostname, Note};
use holdfast_store::{Adoption, Stranger};
use rustix::fs::Access;

use super::disk::{Disk, Entry, unusable};
use super::memory::Memory;
use super::runtime::Runtime;
use super::stranger::Strangers;
use super::{HaproxyTarget, State};
use crate::checked::Print;
use crate::turn::blocking;
use crate::{Error, Result};

/// The names that each file is to be taken over for.
type Asked<'a> = HashMap<&'a str, HashSet<&'a str>>;

impl HaproxyTarget {
    /// What is in a file stays until a certificate is put there; that it is ours is kept first.
    pub(super) async fn take_over(
        &self,
        state: &mut State,
        runtime: &mut Runtime,
        adoptions: &[Adoption],
    ) -> Result<Vec<Result<(), Note>>> {
        let memory = Memory::read(runtime).await?;
        let mut asked = Asked::new();
        for Adoption { file, name } in adoptions {
            asked.entry(file).or_default().insert(name.as_str());
        }
        let mut results = Vec::with_capacity(adoptions.len());
        let mut taken = HashSet::new();
        for adoption in adoptions {
            let done = self.take_one_over(state, &memory, &asked, adoption).await;
            if matches!(done, Ok(true)) {
                taken.insert(adoption.file.clone());
            }
            results.push(done.map(drop).map_err(|error| error.note()));
        }
        let disk = state.disk()?;
        disk.replacing.write()?;
        disk.write_adopted()?;
        state.strangers.forget_all(&taken);
        Ok(results)
    }

    /// Is it ours now, in its place?
    async fn take_one_over(
        &self,
        state: &mut State,
        memory: &Memory,
        asked: &Asked<'_>,
        adoption: &Adoption,
    ) -> Result<bool> {
        let Adoption { file, name } = adoption;
        let disk = state.disk.as_mut().ok_or(Error::Stopped)?;
        let held = disk.entries.get(name).map(|entry| entry.adopted.as_ref());
        if held == Some(Some(file)) {
            return Ok(false);
        }
        let refuse = |why: String| Error::NotAdoptable { file: file.clone(), why };
        let Some(stranger) = state.strangers.by_file(file) else {
            if disk.replacing.has(file) {
                return Ok(false);
            }
            return Err(refuse("HAProxy has not loaded a file of that name".to_owned()));
        };
        let asked = asked.get(file.as_str());
        let is_ours = |name: &String| {
            asked.is_some_and(|all| all.contains(name.as_str())) || disk.has_own(name)
        };
        let others: Vec<_> = stranger.names.iter().filter(|name| !is_ours(name)).collect();
        if !others.is_empty() {
            let some = some(&others);
            return Err(refuse(format!(
                "it is also served for {some}, which would stop; give that a file of its own first"
            )));
        }
        if let Some(why) = is_shared(&state.strangers, disk, stranger) {
            return Err(refuse(why));
        }
        let is_replaced = stranger.names.len() > 1 || held.is_some();
        if let Some(why) = is_replaced.then(|| is_irreplaceable(memory, file)).flatten() {
            return Err(refuse(why.to_owned()));
        }
        let changed = match is_replaced {
            true => directories(memory, file),
            false => Path::new(file).parent().map(Path::to_owned).into_iter().collect(),
        };
        let print = look_at(PathBuf::from(file), PathBuf::from(&disk.directory), changed).await;
        let print = print.map_err(|error| refuse(crate::error::chain(&error)))?;
        if is_replaced {
            if !self.is_served_here(memory, stranger).await? {
                let probe = self.config.probe;
                return Err(refuse(format!(
                    "{probe} does not serve it: it is for visitors of another bind, or comes after ours"
                )));
            }
            tracing::info!(%name, file, "a file is to give way to ours");
            disk.replacing.insert(file.clone());
            return Ok(false);
        }
        let mut entry = Entry::new(print, Some(file.clone()));
        (entry.loaded, entry.listed) = (stranger.sha256 == Some(print.sha256_hex()), true);
        disk.entries.insert(name.clone(), entry);
        tracing::info!(%name, file, "a file was taken over");
        Ok(true)
    }

    /// Do visitors of the bind that we look at get it? Else its names may be without where they do.
    async fn is_served_here(&self, memory: &Memory, stranger: &Stranger) -> Result<bool> {
        let (own, places) = (self.crt_list(), memory.places(&stranger.file));
        if !places.is_empty() && places.iter().all(|(list, _)| *list == own) {
            return Ok(true);
        }
        for name in stranger.names.iter().filter_map(|name| Hostname::parse_host(name).ok()) {
            let seen = self.prober.look_for(self.config.probe, &name).await?;
            if seen.is_some() && seen == stranger.sha256 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Is one of its names served from another file too, which is not ours in its own place? Then it is not clear who is served from where.
fn is_shared(strangers: &Strangers, disk: &Disk, stranger: &Stranger) -> Option<String> {
    stranger.names.iter().find_map(|name| {
        let other = strangers.all_of(name).find(|other| other.file != stranger.file);
        let entry = Hostname::parse_host(name).ok().and_then(|name| disk.entries.get(&name));
        let adopted = entry.and_then(|entry| entry.adopted.as_ref());
        let other = other.map(|other| &other.file).or(adopted)?;
        Some(format!("{other} is served for {name} too; take the name off one of them first"))
    })
}

/// Why files of ours could not take its place.
fn is_irreplaceable(memory: &Memory, file: &str) -> Option<&'static str> {
    let lines = memory.lists.values().map(|lines| lines.iter().filter(|line| line.file == file));
    let lists: Vec<Vec<_>> =
        lines.map(Iterator::collect).filter(|lines: &Vec<_>| !lines.is_empty()).collect();
    match &lists[..] {
        [] => Some(
            "it stands on the bind line itself; put it on a crt-list first, and reload HAProxy",
        ),
        [lines] if lines.iter().any(|line| line.has_options) => Some(
            "its line has options of its own, which ours would be without; take them off, or the names apart",
        ),
        [_] => None,
        _ => Some("it stands on several lists; take it off all but one first"),
    }
}

/// Where the lists are that a file stands in; a directory may stand for a list.
fn directories(memory: &Memory, file: &str) -> Vec<PathBuf> {
    let lists = memory.places(file).into_iter().map(|(list, _)| Path::new(list));
    let directory = |list: &Path| match list.is_dir() {
        true => Some(list.to_owned()),
        false => list.parent().map(Path::to_owned),
    };
    lists.filter_map(directory).collect()
}

/// Looks at a file before anything is changed: it holds a certificate, is none of ours by another name, and what must be written can be.
async fn look_at(file: PathBuf, own: PathBuf, changed: Vec<PathBuf>) -> Result<Print> {
    blocking(move || {
        let pem = std::fs::read(&file).map_err(|source| unusable(&file, source))?;
        let real = |path: &Path| path.canonicalize().map_err(|source| unusable(path, source));
        if real(&file)?.starts_with(real(&own)?) {
            return Err(Error::Unconfigurable(
                "it is a file of the agent's by another name".into(),
            ));
        }
        for directory in changed {
            rustix::fs::access(&directory, Access::WRITE_OK)
                .map_err(|error| unusable(&directory, error.into()))?;
        }
        let none = || Error::Unconfigurable("it holds no certificate".to_owned());
        Print::of_pem(&pem).ok_or_else(none)
    })
    .await
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
