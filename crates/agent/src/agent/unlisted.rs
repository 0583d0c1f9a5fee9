//! Names that are served and that no listing has: they go only when that is believable.
//!
//! A control plane that lost its data, or answers for another, lists little or nothing. What it does not list is then
//! not taken away before a person has said so, by a file beside the agent's data.

use std::path::Path;

use holdfast_model::Hostname;

use crate::{Error, Result};

/// So few may always go.
const FEW: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Unlisted {
    names: Vec<Hostname>,
    held: usize,
    listed: usize,
}

impl Unlisted {
    pub(super) fn new(names: Vec<Hostname>, held: usize, listed: usize) -> Self {
        Self { names, held, listed }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// A name was heard of by itself: what was said of it counts.
    pub(super) fn heard_of(&mut self, name: &Hostname) {
        self.names.retain(|unlisted| unlisted != name);
    }

    /// Is it to be believed that all of them go?
    fn is_believable(&self) -> bool {
        let gone = self.names.len();
        self.listed > 0 && (gone <= FEW || gone * 2 <= self.held)
    }

    /// Those that may go now, or why not.
    pub(super) fn to_drop(&self, confirm: Option<&Path>) -> Result<&[Hostname], Error> {
        if self.is_believable() || confirm.is_some_and(Path::exists) {
            return Ok(&self.names);
        }
        let confirm =
            confirm.map_or("a confirmation".to_owned(), |path| path.display().to_string());
        let (listed, held, gone) = (self.listed, self.held, self.names.len());
        Err(Error::ListingShrank { listed, held, gone, confirm })
    }

    /// These are left.
    pub(super) fn leave(&mut self, names: Vec<Hostname>) {
        self.names = names;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlisted(gone: usize, held: usize, listed: usize) -> Unlisted {
        let name = |n| Hostname::parse(&format!("n{n}.test")).unwrap();
        Unlisted::new((0..gone).map(name).collect(), held, listed)
    }

    #[test]
    fn a_listing_that_lacks_little_is_believed_and_one_that_lacks_most_is_not() {
        for (gone, held, listed, believed) in [
            (1, 1, 0, false),
            (10, 11, 1, true),
            (11, 20, 9, false),
            (11, 22, 11, true),
            (1_000, 2_000, 1_000, true),
            (1_001, 2_000, 999, false),
            (20_000, 20_000, 0, false),
        ] {
            let is_believed = unlisted(gone, held, listed).to_drop(None).is_ok();
            assert_eq!(is_believed, believed, "{gone} of {held} gone, {listed} listed");
        }
    }

    #[test]
    fn a_person_can_confirm_and_a_name_of_its_own_counts() {
        let mut all = unlisted(30, 30, 0);
        let said = all.to_drop(Some(Path::new("/nonexistent"))).unwrap_err().to_string();
        assert!(said.contains("create /nonexistent"), "{said}");
        assert_eq!(all.to_drop(Some(Path::new("/"))).unwrap().len(), 30);
        all.heard_of(&Hostname::parse("n7.test").unwrap());
        assert_eq!(all.to_drop(Some(Path::new("/"))).unwrap().len(), 29);
    }
}
