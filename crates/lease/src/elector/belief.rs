//! What this process believes, as a time that is compared at every question.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::clock::Moment;
use crate::identity::Term;

/// Until when a lease is held, and in which term. Zero: it is not.
#[derive(Debug, Default)]
pub(super) struct Belief {
    until: AtomicU64,
    term: AtomicI64,
}

impl Belief {
    pub(super) fn hold(&self, term: Term, until: Moment) {
        // A reader that sees the new time must see its term: the time is stored last, and cleared first.
        if self.term.load(Ordering::Relaxed) != term.number() {
            self.until.store(0, Ordering::SeqCst);
            self.term.store(term.number(), Ordering::SeqCst);
        }
        self.until.store(until.as_nanos(), Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn holds(&self, now: Moment) -> bool {
        now.as_nanos() < self.until.load(Ordering::Acquire)
    }

    /// The term held now. The time is compared again after reading it: it may have changed hands in between.
    pub(super) fn term(&self, now: Moment) -> Option<Term> {
        let before = self.until.load(Ordering::SeqCst);
        let term = self.term.load(Ordering::SeqCst);
        let after = self.until.load(Ordering::SeqCst);
        let held = now.as_nanos() < before && now.as_nanos() < after;
        (held && before != 0).then(|| Term::new(term))
    }
}
