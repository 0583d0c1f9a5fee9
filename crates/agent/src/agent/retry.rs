//! Names that did not come out as desired: each is tried again by itself, ever more slowly.

use std::collections::HashMap;
use std::time::Duration;

use holdfast_model::Hostname;
use holdfast_store::{Change, Revision};
use tokio::time::Instant;

/// Beyond this many something is wrong with more than the names: nothing new is begun before they are fewer.
const LIMIT: usize = 10_000;

/// From this many failures on it is reported. Fewer may come of a change that overtook another.
pub(super) const REPORTED_FROM: u32 = 3;

/// Up to this many failures the reported revision waits for the name, so that a restart tries it again.
const HELD_UP_TO: u32 = 8;

/// How long after its nth failure a name is tried again.
fn delay(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::from_millis(100),
        2 => Duration::from_millis(400),
        3 => Duration::from_secs(2),
        4 => Duration::from_secs(10),
        5 => Duration::from_secs(30),
        6 => Duration::from_secs(60),
        _ => Duration::from_secs(300),
    }
}

/// A change and how often it failed.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) change: Change,
    pub(super) failures: u32,
}

impl Task {
    pub(super) const fn new(change: Change) -> Self {
        Self { change, failures: 0 }
    }
}

#[derive(Debug, Default)]
pub(super) struct Retries(HashMap<Hostname, (Task, Instant)>);

impl Retries {
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= LIMIT
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn forget(&mut self, name: &Hostname) {
        self.0.remove(name);
    }

    /// Tries this one at once, unless it is to be tried again already.
    pub(super) fn doubt(&mut self, change: Change, now: Instant) {
        self.0.entry(change.name.clone()).or_insert_with(|| (Task::new(change), now));
    }

    /// Tries them all at once: what kept them from coming out as desired may be over.
    pub(super) fn all_due(&mut self, now: Instant) {
        self.0.values_mut().for_each(|(_, due)| *due = now);
    }

    pub(super) fn failed(&mut self, task: Task, now: Instant) {
        let due = now + delay(task.failures);
        self.0.insert(task.change.name.clone(), (task, due));
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.values().map(|(_, due)| *due).min()
    }

    /// Those that are due, except for names with something newer; they stay until they are settled.
    pub(super) fn due(&self, now: Instant, limit: usize, newer: &[Task]) -> Vec<Task> {
        let superseded = |name: &Hostname| newer.iter().any(|task| task.change.name == *name);
        let due = self.0.values().filter(|(_, due)| *due <= now).map(|(task, _)| task);
        due.filter(|task| !superseded(&task.change.name)).take(limit).cloned().collect()
    }

    /// Everything up to here may be reported as done with, if it was applied up to `applied`.
    pub(super) fn settled_up_to(&self, applied: Revision) -> Revision {
        let held = self.0.values().filter(|(task, _)| task.failures <= HELD_UP_TO);
        let before = |at: Revision| Revision { epoch: at.epoch, number: (at.number - 1).max(0) };
        held.map(|(task, _)| before(task.change.revision)).fold(applied, Ord::min)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::DomainId;

    use super::*;

    fn task(name: &str, number: i64, failures: u32) -> Task {
        let change = Change {
            name: Hostname::parse(name).unwrap(),
            domain: DomainId::new(),
            certificate: None,
            revision: Revision { epoch: 1, number },
        };
        Task { change, failures }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_due_after_its_delay_and_only_once() {
        let mut retries = Retries::default();
        let now = Instant::now();
        retries.failed(task("a.test", 3, 1), now);
        retries.failed(task("a.test", 5, 1), now);
        assert!(retries.due(now, 10, &[]).is_empty());
        let later = retries.next_due().unwrap();
        assert_eq!(retries.due(later, 10, &[]).len(), 1);
        assert!(retries.due(later, 10, &[task("a.test", 9, 0)]).is_empty());
        retries.forget(&Hostname::parse("a.test").unwrap());
        assert_eq!(retries.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_revision_waits_for_a_name_but_not_for_ever() {
        let mut retries = Retries::default();
        let applied = Revision { epoch: 1, number: 9 };
        retries.failed(task("a.test", 5, 2), Instant::now());
        retries.failed(task("b.test", 7, 1), Instant::now());
        assert_eq!(retries.settled_up_to(applied).number, 4);
        retries.failed(task("a.test", 5, HELD_UP_TO + 1), Instant::now());
        assert_eq!(retries.settled_up_to(applied).number, 6);
        retries.clear();
        assert_eq!(retries.settled_up_to(applied), applied);
    }
}
