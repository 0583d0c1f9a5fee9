//! What counts of a journal that is being read.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Line;

/// What a line is about, and whether its row is there or gone.
#[derive(Deserialize)]
pub(super) struct Heading {
    kind: String,
    id: String,
    row: Option<IgnoredAny>,
}

/// The last line of each id, in the order in which the ids first appeared: what refers comes after what it refers to. Holds no
/// more than there is at that place of the file, however long the file is.
#[derive(Default)]
pub(super) struct Last {
    /// By kind and id, the number under which its line is kept.
    numbers: HashMap<(String, String), usize>,
    lines: BTreeMap<usize, Line>,
    next: usize,
}

impl Last {
    pub(super) fn take(&mut self, Heading { kind, id, row }: Heading, text: &[u8]) {
        let key = (kind, id);
        if row.is_none() {
            if let Some(number) = self.numbers.remove(&key) {
                self.lines.remove(&number);
            }
            return;
        }
        let (kind, id) = key.clone();
        let number = *self.numbers.entry(key).or_insert(self.next);
        self.next = self.next.max(number + 1);
        self.lines.insert(number, Line { kind, id, text: text.to_owned() });
    }

    pub(super) fn in_order(self) -> Vec<Line> {
        self.lines.into_values().collect()
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.lines.len(), self.numbers.len())
    }
}
