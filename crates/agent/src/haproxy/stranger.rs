//! Certificates in HAProxy that are none of ours: left alone, and told of.

use std::collections::{HashMap, HashSet};

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
    by_name: HashMap<String, usize>,
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
        let named = all
            .iter()
            .enumerate()
            .flat_map(|(at, one)| one.names.iter().map(move |name| (name.clone(), at)));
        let by_name = named.collect();
        Self { all, by_name }
    }

    pub(super) fn all(&self) -> &[Stranger] {
        &self.all
    }

    /// The stranger that is served for exactly this name. One for a wildcard gives way.
    pub(super) fn of(&self, name: &str) -> Option<&Stranger> {
        self.all.get(*self.by_name.get(name)?)
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

/// What each file is listed for, over all lists.
fn filters(memory: &Memory) -> HashMap<&str, Vec<&str>> {
    let mut filters: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in memory.lists.values().flatten() {
        filters.entry(&line.file).or_default().extend(line.filters.iter().map(String::as_str));
    }
    filters
}

/// The names that a file is served for: those that its lines say, else those of its certificate, less what is excluded.
fn served(file: &str, shown: &Shown, filters: &HashMap<&str, Vec<&str>>) -> Vec<String> {
    let filters = filters.get(file).map_or(&[][..], Vec::as_slice);
    let (excluded, wanted): (Vec<&str>, Vec<&str>) =
        filters.iter().partition(|filter| filter.starts_with('!'));
    let names = match wanted.is_empty() {
        true => shown.names.clone(),
        false => wanted.iter().map(|name| name.to_ascii_lowercase()).collect(),
    };
    let is_excluded =
        |name: &str| excluded.iter().any(|filter| *filter == "!*" || filter.get(1..) == Some(name));
    names.into_iter().filter(|name| !is_excluded(name)).collect()
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
        let check = |filters: &[&'static str], wanted: &[&str]| {
            let filters = HashMap::from([("f", filters.to_vec())]);
            assert_eq!(served("f", &shown, &filters), wanted, "{filters:?}");
        };
        check(&[], &["a.test", "b.test"]);
        check(&["!*"], &[]);
        check(&["!b.test"], &["a.test"]);
        check(&["B.test", "c.test"], &["b.test", "c.test"]);
        assert_eq!(served("g", &shown, &HashMap::new()), ["a.test", "b.test"]);
    }
}
