//! What was seen and is not reported yet: the newest per domain, and bounded.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_model::{DomainId, Note};
use holdfast_store::{Adopted, EdgeReport, Observation, Revision, Stranger};
use tokio::sync::Notify;

/// So many unreported observations make the follower wait.
const LIMIT: usize = 4_096;

pub(super) struct Outbox {
    state: Mutex<State>,
    filled: Notify,
    emptied: Notify,
    mended: Notify,
}

struct State {
    observations: BTreeMap<DomainId, Observation>,
    settled: Revision,
    reported: Revision,
    complaints: BTreeMap<Topic, Note>,
    strangers: Option<Vec<Stranger>>,
    adopted: Vec<Adopted>,
}

/// What a complaint about the edge as a whole is about; the first of those there are is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// The proxy, as visitors see it.
    Proxy,
    /// The proxy, as it is told what to serve.
    Target,
    /// Following the control plane.
    Follow,
    /// What the control plane lists.
    Listing,
}

impl Outbox {
    pub(super) fn new(revision: Revision) -> Self {
        let state = State {
            observations: BTreeMap::new(),
            settled: revision,
            reported: revision,
            complaints: BTreeMap::new(),
            strangers: None,
            adopted: Vec::new(),
        };
        let state = Mutex::new(state);
        Self { state, filled: Notify::new(), emptied: Notify::new(), mended: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an observation for the next report.
    pub(super) fn saw(&self, observation: Observation) {
        self.lock().observations.insert(observation.domain, observation);
    }

    /// Keeps one of what is as it was, if there is room: nobody waits for it.
    pub(super) fn saw_again(&self, observation: Observation) {
        let mut state = self.lock();
        if state.observations.len() < LIMIT / 2 {
            state.observations.insert(observation.domain, observation);
        }
    }

    /// What was seen is to be reported now, and also that nothing is left to be seen.
    pub(super) fn flush(&self) {
        let state = self.lock();
        let news = !state.observations.is_empty() || state.settled > state.reported;
        drop(state);
        if news {
            self.filled.notify_one();
        }
    }

    /// Everything up to here was seen, or refused, and put in here. Never goes back: what is listed anew was settled before.
    pub(super) fn settled(&self, up_to: Revision) {
        let mut state = self.lock();
        state.settled = state.settled.max(up_to);
    }

    /// Says what is wrong with the edge as a whole, or that nothing is.
    pub(super) fn complain(&self, topic: Topic, complaint: Option<Note>) {
        let mut state = self.lock();
        if state.complaints.get(&topic) == complaint.as_ref() {
            return;
        }
        match complaint {
            Some(note) => state.complaints.insert(topic, note),
            None => state.complaints.remove(&topic),
        };
        drop(state);
        self.filled.notify_one();
    }

    /// These are all the files that are none of ours.
    pub(super) fn strangers(&self, strangers: Vec<Stranger>) {
        self.lock().strangers = Some(strangers);
        self.filled.notify_one();
    }

    /// How taking over went.
    pub(super) fn adopted(&self, adopted: Vec<Adopted>) {
        self.lock().adopted.extend(adopted);
        self.filled.notify_one();
    }

    /// The target mended something by itself: what is served is to be looked at anew.
    pub(super) fn mended(&self) {
        self.mended.notify_one();
    }

    /// Waits until the target mended something.
    pub(super) async fn was_mended(&self) {
        self.mended.notified().await;
    }

    /// Waits until there is something to report at once.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Waits until there is room for more.
    pub(super) async fn room(&self) {
        while self.lock().observations.len() >= LIMIT {
            self.emptied.notified().await;
        }
    }

    /// The next report. The revision goes out with the last of what it covers.
    pub(super) fn draft(&self, limit: usize) -> EdgeReport {
        let state = self.lock();
        let observations: Vec<_> = state.observations.values().take(limit).cloned().collect();
        let all = observations.len() == state.observations.len();
        EdgeReport {
            up_to: if all { state.settled } else { state.reported },
            observations,
            error: state.complaints.values().next().cloned(),
            strangers: state.strangers.clone(),
            adopted: state.adopted.clone(),
            ..EdgeReport::default()
        }
    }

    /// The revision as last reported.
    pub(super) fn reported(&self) -> Revision {
        self.lock().reported
    }

    /// The report is done with; is there more? What was seen anew meanwhile stays.
    pub(super) fn done_with(&self, report: &EdgeReport) -> bool {
        let mut state = self.lock();
        for observation in &report.observations {
            if state.observations.get(&observation.domain) == Some(observation) {
                state.observations.remove(&observation.domain);
            }
        }
        state.reported = report.up_to;
        if state.strangers == report.strangers {
            state.strangers = None;
        }
        state.adopted.retain(|one| !report.adopted.contains(one));
        let more = !state.observations.is_empty();
        drop(state);
        self.emptied.notify_one();
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sha256: &str) -> Observation {
        Observation { domain: DomainId::new(), sha256: Some(sha256.to_owned()), error: None }
    }

    #[test]
    fn the_revision_goes_out_with_the_last_of_what_it_covers() {
        let at = |number| Revision { epoch: 1, number };
        let outbox = Outbox::new(at(1));
        for sha256 in ["a", "b", "c"] {
            outbox.saw(seen(sha256));
        }
        outbox.settled(at(7));
        let first = outbox.draft(2);
        assert_eq!((first.observations.len(), first.up_to), (2, at(1)));
        assert!(outbox.done_with(&first));
        let last = outbox.draft(2);
        assert_eq!((last.observations.len(), last.up_to), (1, at(7)));
        assert!(!outbox.done_with(&last));
        outbox.settled(at(3));
        assert_eq!(outbox.draft(2).up_to, at(7));
    }

    #[test]
    fn what_was_seen_while_a_report_was_under_way_is_reported_too() {
        let outbox = Outbox::new(Revision::default());
        let old = seen("old");
        outbox.saw(old.clone());
        let report = outbox.draft(10);
        outbox.saw(Observation { sha256: Some("new".to_owned()), ..old });
        assert!(outbox.done_with(&report));
        assert_eq!(outbox.draft(10).observations[0].sha256.as_deref(), Some("new"));
    }
}
