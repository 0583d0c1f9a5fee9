//! What the CA did and did not do for this replica: whether a failure is a domain's own or the CA's, and how often it is noted where
//! all replicas see it.

use std::{collections::HashMap, time::Duration};

use holdfast_model::{DomainId, State};
use tokio::time::Instant;

/// A CA that fails at random does so a few times in a row for one name or another.
const TIMES: u32 = 4;

/// A failure that was noted so long ago has nobody left who could see its end.
const NOTED_FOR: Duration = Duration::from_secs(15 * 60);

/// How often at most the same failure is noted, and how often it is noted unasked that the CA answers.
pub(crate) const NOTED_EVERY: Duration = Duration::from_secs(10);
const ANSWERED_EVERY: Duration = Duration::from_secs(60);

/// More than this need not be remembered: one that is forgotten gets another try.
const SUSPECTS: usize = 10_000;

/// The record of one process.
#[derive(Default)]
pub(crate) struct CaRecord {
    /// By state, how often the CA did for a domain what it was asked for.
    done: HashMap<State, u64>,
    /// Whom the CA failed, and in which state.
    suspects: HashMap<(DomainId, State), Suspect>,
    /// In which states the CA fails, and when this replica noted so last.
    noted: HashMap<State, Instant>,
    /// When it was noted last that the CA answers.
    answered: Option<Instant>,
}

/// A domain that the CA failed.
struct Suspect {
    /// What the CA had done for others by the last time.
    before: u64,
    /// How often it failed again after others had got through.
    times: u32,
}

impl CaRecord {
    /// The CA did what it was asked for. Is it to be noted that it answers this replica? What was noted is taken back once nothing
    /// fails any more; an order that was made shows it also where an earlier start of this replica noted the failure.
    pub(crate) fn done(&mut self, domain: DomainId, state: State) -> bool {
        *self.done.entry(state).or_default() += 1;
        self.suspects.remove(&(domain, state));
        let now = Instant::now();
        let own = self.noted.remove(&state).is_some();
        self.noted.retain(|_, at| now.duration_since(*at) < NOTED_FOR);
        let due = self.answered.is_none_or(|at| now.duration_since(at) >= ANSWERED_EVERY);
        let is_news = self.noted.is_empty() && (own || (state == State::AcmeOrdering && due));
        if is_news {
            self.answered = Some(now);
        }
        is_news
    }

    /// How often the CA did for a domain what it was asked for in this state.
    pub(crate) fn count(&self, state: State) -> u64 {
        self.done.get(&state).copied().unwrap_or_default()
    }

    /// The CA failed when it was asked in this state. Is it this very name that it cannot do? It is if that came several times in a
    /// row, and others got through in between. Without that it is the CA that has failed, and not the domain.
    pub(crate) fn is_its_own(&mut self, domain: DomainId, state: State) -> bool {
        let done = self.count(state);
        if !self.suspects.contains_key(&(domain, state)) && self.suspects.len() >= SUSPECTS {
            return false;
        }
        let first = Suspect { before: done, times: 0 };
        let suspect = self.suspects.entry((domain, state)).or_insert(first);
        suspect.times = suspect.times.saturating_add(u32::from(done > suspect.before));
        suspect.before = done;
        let is_its_own = suspect.times >= TIMES;
        if is_its_own {
            self.suspects.remove(&(domain, state));
        }
        is_its_own
    }

    /// Did the CA fail this domain again after it had done for others what they asked for?
    pub(crate) fn is_suspect(&self, domain: DomainId, state: State) -> bool {
        self.suspects.get(&(domain, state)).is_some_and(|suspect| suspect.times > 0)
    }

    /// The CA failed in this state. Is that to be noted again?
    pub(crate) fn failed(&mut self, state: State) -> bool {
        let now = Instant::now();
        if self.noted.get(&state).is_some_and(|at| now.duration_since(*at) < NOTED_EVERY) {
            return false;
        }
        self.note(state);
        true
    }

    /// It is noted that the CA fails in this state.
    pub(crate) fn note(&mut self, state: State) {
        self.noted.insert(state, Instant::now());
    }

    /// Takes a note back; was there one?
    pub(crate) fn forget_note(&mut self, state: State) -> bool {
        self.noted.remove(&state).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: State = State::AcmeOrdering;

    #[test]
    fn a_name_that_fails_while_others_get_through_fails_by_itself() {
        let (mut record, poor, lucky) = (CaRecord::default(), DomainId::new(), DomainId::new());
        // The CA is down for all: nobody's fault, however often.
        for _ in 0..5 {
            assert!(!record.is_its_own(poor, AT));
            assert!(!record.is_its_own(lucky, AT));
        }
        // It is back, and fails this one again and again.
        for _ in 1..TIMES {
            record.done(lucky, AT);
            assert!(!record.is_its_own(poor, AT), "it may have been on its way before");
        }
        record.done(lucky, AT);
        assert!(record.is_its_own(poor, AT));
        // And from the beginning.
        for _ in 0..TIMES {
            assert!(!record.is_its_own(poor, AT));
            record.done(lucky, AT);
        }
        record.done(poor, AT);
        assert!(!record.is_its_own(poor, AT));
        // What others get done elsewhere says nothing of this.
        for _ in 0..5 {
            record.done(lucky, State::CertificateDownloading);
            assert!(!record.is_its_own(poor, State::AcmeChallengePreparing));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn that_the_ca_fails_and_answers_is_noted_rarely() {
        let (mut record, domain) = (CaRecord::default(), DomainId::new());
        let downloading = State::CertificateDownloading;
        assert!(record.done(domain, AT), "an earlier start may have said that it fails");
        assert!(!record.done(domain, AT) && !record.done(domain, downloading));
        assert!(record.failed(downloading) && !record.failed(downloading));
        tokio::time::advance(ANSWERED_EVERY).await;
        assert!(record.failed(downloading));
        assert!(!record.done(domain, AT), "orders are not what fails");
        assert!(record.done(domain, downloading) && !record.done(domain, downloading));
        tokio::time::advance(ANSWERED_EVERY).await;
        assert!(record.done(domain, AT) && !record.done(domain, downloading));
    }
}
