//! Certificates in HAProxy that are none of ours: left alone, and told of.

use std::collections::{BTreeSet, HashMap, HashSet};

use holdfast_store::Stranger;

use super::memory::{Memory, Shown, show};
use super::runtime::Runtime;
use crate::Result;
use crate::checked::Print;
use crate::turn::blocking;

#[derive(Debug, Default)]
pub(super) struct Strangers {
    /// By file.
    all: Vec<Stranger>,
    by_name: HashMap<String, Vec<usize>>,
}

impl Strangers {
    /// Looks at these files: what they serve, and which certificate.
    pub(super) async fn read(
        runtime: &mut Runtime,
        memory: &Memory,
        mut files: Vec<String>,
    ) -> Result<Self> {
        files.sort_unstable();
        let shown = show(runtime, &files).await?;
        let filters = filters(memory);
        let mut found = Vec::new();
        for (file, shown) in files.into_iter().zip(shown) {
            let names = served(&file, &shown, &filters);
            if !names.is_empty() {
                found.push((Stranger { file, names, sha256: None, shadows: false }, shown.sha1));
            }
        }
        let all = blocking(move || Ok(found.into_iter().map(with_fingerprint).collect())).await?;
        Ok(Self::new(all))
    }

    fn new(all: Vec<Stranger>) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, one) in all.iter().enumerate() {
            for name in &one.names {
                by_name.entry(name.clone()).or_default().push(at);
            }
        }
        Self { all, by_name }
    }

    pub(super) fn all(&self) -> &[Stranger] {
        &self.all
    }

    /// A stranger that is served for exactly this name. One for a wildcard gives way.
    pub(super) fn of(&self, name: &str) -> Option<&Stranger> {
        self.all_of(name).next()
    }

    pub(super) fn all_of(&self, name: &str) -> impl Iterator<Item = &Stranger> + use<'_> {
        self.by_name.get(name).into_iter().flatten().filter_map(|at| self.all.get(*at))
    }

    pub(super) fn by_file(&self, file: &str) -> Option<&Stranger> {
        let at = self.all.binary_search_by(|one| one.file.as_str().cmp(file)).ok()?;
        self.all.get(at)
    }

    /// They are ours now.
    pub(super) fn forget_all(&mut self, files: &HashSet<String>) {
        let all = std::mem::take(&mut self.all);
        *self = Self::new(all.into_iter().filter(|one| !files.contains(&one.file)).collect());
    }
}

/// What each line of each file says that it is for, over all lists.
fn filters(memory: &Memory) -> HashMap<&str, Vec<&[String]>> {
    let mut filters: HashMap<&str, Vec<&[String]>> = HashMap::new();
    for line in memory.lists.values().flatten() {
        filters.entry(&line.file).or_default().push(&line.filters);
    }
    filters
}

/// The names that a file is served for by any of its lines; what stands on no list is for those of its certificate.
fn served(file: &str, shown: &Shown, filters: &HashMap<&str, Vec<&[String]>>) -> Vec<String> {
    let unlisted = [&[][..]];
    let lines = filters.get(file).map_or(&unlisted[..], Vec::as_slice);
    let names: BTreeSet<_> = lines.iter().flat_map(|line| served_by(line, shown)).collect();
    names.into_iter().collect()
}

/// Those that the line says, less what is excluded; those of the certificate if it says nothing at all.
fn served_by(line: &[String], shown: &Shown) -> Vec<String> {
    let (excluded, wanted): (Vec<&str>, Vec<&str>) =
        line.iter().map(String::as_str).partition(|filter| filter.starts_with('!'));
    if line.is_empty() {
        return shown.names.clone();
    }
    let is_excluded = |name: &str| {
        let not = |filter: &&str| filter.get(1..).is_some_and(|not| not.eq_ignore_ascii_case(name));
        excluded.iter().any(|filter| *filter == "!*" || not(filter))
    };
    let names = wanted.iter().map(|name| name.to_ascii_lowercase());
    names.filter(|name| !is_excluded(name)).collect()
}

/// HAProxy tells only the SHA-1: the file on disk tells more, if it is the same certificate.
fn with_fingerprint((mut stranger, sha1): (Stranger, Option<[u8; 20]>)) -> Stranger {
    let print = std::fs::read(&stranger.file).ok().and_then(|pem| Print::of_pem(&pem));
    let same = print.filter(|print| Some(print.sha1) == sha1);
    stranger.sha256 = same.map(|print| print.sha256_hex());
    stranger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_served_for() {
        let shown = Shown { sha1: None, names: vec!["a.test".to_owned(), "b.test".to_owned()] };
        let check = |lines: &[&[&str]], wanted: &[&str]| {
            let line = |line: &&[&str]| line.iter().map(|&one| one.to_owned()).collect();
            let lines: Vec<Vec<String>> = lines.iter().map(line).collect();
            let filters = HashMap::from([("f", lines.iter().map(Vec::as_slice).collect())]);
            assert_eq!(served("f", &shown, &filters), wanted, "{filters:?}");
        };
        check(&[&[]], &["a.test", "b.test"]);
        check(&[&["!*"]], &[]);
        check(&[&["!b.test"]], &[]);
        check(&[&["b.test", "c.test", "!B.test"]], &["c.test"]);
        check(&[&["B.test", "c.test"]], &["b.test", "c.test"]);
        // Each line by itself.
        check(&[&[], &["c.test"]], &["a.test", "b.test", "c.test"]);
        check(&[&["!b.test"], &["b.test"], &["!*"]], &["b.test"]);
        assert_eq!(served("g", &shown, &HashMap::new()), ["a.test", "b.test"]);
    }
}
