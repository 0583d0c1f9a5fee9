//! What was asked for: every life of every name, and how it is to end.

use std::collections::BTreeMap;

/// One life of a name: from its addition to its removal.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// The name.
    pub(super) name: String,
    /// The idempotency key of its addition, so that a lost answer can be asked for again.
    pub(super) orchestration: String,
    /// Known once the addition was answered.
    pub(super) id: Option<String>,
    /// Is it to be gone in the end?
    pub(super) removed: bool,
    /// Was it seen to be gone?
    pub(super) gone: bool,
}

/// All lives, oldest first.
#[derive(Default)]
pub(super) struct Ledger(Vec<Life>);

impl Ledger {
    /// Notes that a name is about to be added: one that never was, or one that is gone.
    pub(super) fn begin(&mut self, name: &str) -> Life {
        let orchestration = format!("{name}-{}", self.0.len());
        let life = Life { name: name.into(), orchestration, id: None, removed: false, gone: false };
        self.0.push(life.clone());
        life
    }

    pub(super) fn all(&self) -> &[Life] {
        &self.0
    }

    pub(super) fn life_mut(&mut self, orchestration: &str) -> Option<&mut Life> {
        self.0.iter_mut().find(|life| life.orchestration == orchestration)
    }

    /// Lives that were answered and are not to end.
    pub(super) fn lasting(&self) -> Vec<Life> {
        self.0.iter().filter(|life| life.id.is_some() && !life.removed).cloned().collect()
    }

    /// Names whose every life is gone.
    pub(super) fn free_names(&self) -> Vec<String> {
        let mut free = BTreeMap::new();
        for life in &self.0 {
            free.insert(life.name.clone(), life.gone);
        }
        free.into_iter().filter(|(_, gone)| *gone).map(|(name, _)| name).collect()
    }

    /// The lives of each name.
    pub(super) fn by_name(&self) -> BTreeMap<&str, Vec<&Life>> {
        let mut names: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
        for life in &self.0 {
            names.entry(&life.name).or_default().push(life);
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_when_its_last_life_is_gone() {
        let mut ledger = Ledger::default();
        let first = ledger.begin("a.test");
        assert!(ledger.free_names().is_empty() && ledger.lasting().is_empty());
        ledger.life_mut(&first.orchestration).unwrap().gone = true;
        assert_eq!(ledger.free_names(), ["a.test"]);
        let second = ledger.begin("a.test");
        assert_ne!(first.orchestration, second.orchestration);
        assert!(ledger.free_names().is_empty());
        assert_eq!(ledger.by_name().get("a.test").unwrap().len(), 2);
    }
}
