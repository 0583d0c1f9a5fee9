//! Names that are served and that a restored control plane does not know: customers who were added after the backup was made.
//!
//! They are served on until the control plane says something of them, or a person takes their line out of the file. The file makes
//! the next start know of them too.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::Point;
use holdfast_model::Hostname;

use crate::{Error, Result};

#[derive(Debug, Default)]
pub(super) struct Kept {
    names: BTreeSet<String>,
    file: Option<PathBuf>,
}

impl Kept {
    pub(super) fn load(file: Option<&Path>) -> Self {
        let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        Self { names: text.lines().map(str::to_owned).collect(), file: file.map(Path::to_owned) }
    }

    /// Parts names that are held and not listed into those that are kept and those that may go. After a restore all are kept; a name
    /// that is listed is an ordinary one again.
    pub(super) async fn part(
        &mut self,
        unlisted: Vec<Hostname>,
        listed: &HashSet<Hostname>,
        restored: bool,
    ) -> Result<(Vec<Hostname>, Vec<Hostname>)> {
        let mut names = self.names.clone();
        names.retain(|name| Hostname::parse(name).is_ok_and(|name| !listed.contains(&name)));
        if restored && !unlisted.is_empty() {
            let count = unlisted.len();
            tracing::warn!(
                names = count,
                "names that the restored control plane does not know are served on; `holdfast edge show` lists them"
            );
            names.extend(unlisted.iter().map(Hostname::to_string));
        }
        self.become_these(names).await?;
        Ok(unlisted.into_iter().partition(|name| self.names.contains(name.as_str())))
    }

    /// The control plane said something of these names. Were any of them kept?
    pub(super) async fn heard_of(
        &mut self,
        heard: impl Iterator<Item = &Hostname>,
    ) -> Result<bool> {
        if self.names.is_empty() {
            return Ok(false);
        }
        let mut names = self.names.clone();
        for name in heard {
            names.remove(name.as_str());
        }
        self.become_these(names).await
    }

    /// Those that are kept.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.iter().cloned().collect()
    }

    /// Is that a change?
    async fn become_these(&mut self, names: BTreeSet<String>) -> Result<bool> {
        if names == self.names {
            return Ok(false);
        }
        if let Some(file) = self.file.clone() {
            let text: String = names.iter().map(|name| format!("{name}\n")).collect();
            let write =
                move || files::write(Point::FILE_EDGE, &file, text.as_bytes(), Access::Private);
            tokio::task::spawn_blocking(write).await.map_err(|_| Error::Stopped)??;
        }
        self.names = names;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: std::ops::Range<u32>) -> Vec<Hostname> {
        numbers.map(|n| Hostname::parse(&format!("n{n}.test")).unwrap()).collect()
    }

    #[tokio::test]
    async fn what_a_restored_control_plane_forgot_stays_until_it_says_something_of_it() {
        let scratch = holdfast_testkit::Scratch::new().unwrap();
        let file = scratch.path().join("kept");
        let nothing = HashSet::new();
        let mut first = Kept::load(Some(&file));
        let (kept, gone) = first.part(names(0..3), &nothing, true).await.unwrap();
        assert_eq!((kept, gone), (names(0..3), Vec::new()));
        // Also at the next start; what is not listed for another reason may go.
        let mut next = Kept::load(Some(&file));
        let (kept, gone) = next.part(names(0..5), &nothing, false).await.unwrap();
        assert_eq!((kept, gone), (names(0..3), names(3..5)));
        // Names that were added again are ordinary ones: they go when they are removed.
        let listed = names(0..1).into_iter().collect();
        next.part(names(1..3), &listed, false).await.unwrap();
        next.heard_of(names(1..2).iter()).await.unwrap();
        let mut last = Kept::load(Some(&file));
        let (kept, gone) = last.part(names(0..3), &nothing, false).await.unwrap();
        assert_eq!((kept, gone), (names(2..3), names(0..2)));
    }
}
