//! A simulated process: the real protocol, a clock of its own, and work done under each term.

use std::collections::BTreeMap;

use super::Micros;
use super::clock::Skew;
use super::work::Work;
use crate::clock::Moment;
use crate::identity::{Holder, Incarnation, Name, Term};
use crate::protocol::State;
use crate::protocol::bug::Bug;

/// One start of a process. A restart makes another one in the same place.
pub(crate) struct Process {
    pub(crate) holder: Holder,
    pub(crate) incarnation: Incarnation,
    pub(crate) state: State,
    pub(crate) clock: Skew,
    pub(crate) alive: bool,
    /// Nothing of it runs before this.
    pub(crate) paused_until: Micros,
    /// Its driver does not run before this; its work does.
    pub(crate) stalled_until: Micros,
    /// Messages from it, and to it, are lost until then.
    pub(crate) cut_out_until: Micros,
    pub(crate) cut_in_until: Micros,
    pub(crate) beliefs: BTreeMap<Name, (Term, Moment)>,
    pub(crate) works: BTreeMap<Name, Work>,
    /// When something went wrong for it, and how badly.
    pub(crate) troubles: Vec<(Micros, u32)>,
    pub(crate) wakes: u64,
    /// The session of its beacon, as far as it knows; zero: none.
    pub(crate) session: u64,
}

impl Process {
    /// Whether it would say that it leads, at this true time.
    pub(crate) fn believes(&self, name: &Name, now: Micros) -> Option<Term> {
        let (term, until) = self.beliefs.get(name)?;
        let flag = self.state.bugs.has(Bug::CachedFlag);
        (self.alive && (flag || self.clock.moment(now) < *until)).then_some(*term)
    }

    pub(crate) fn moment(&self, now: Micros) -> Moment {
        self.clock.moment(now)
    }

    pub(crate) fn runs_from(&self) -> Micros {
        self.paused_until.max(self.stalled_until)
    }

    pub(crate) fn trouble(&mut self, now: Micros, weight: u32) {
        self.troubles.push((now, weight));
    }

    /// How much went wrong for it since.
    pub(crate) fn troubles_since(&self, since: Micros) -> u32 {
        self.troubles.iter().filter(|(at, _)| *at >= since).map(|(_, weight)| weight).sum()
    }
}
