//! After a term: releasing what may still be ours, then following or resting.

use std::time::Duration;

use crate::clock::Moment;
use crate::event::Happening;
use crate::identity::Name;
use crate::protocol::bug::Bug;
use crate::protocol::holding::{follow, tell};
use crate::protocol::input::Action;
use crate::protocol::lease::{Ending, Phase};
use crate::protocol::state::State;

impl State {
    /// The store answered a release, whatever it said: the row is not ours any more.
    pub(crate) fn released(&mut self, name: &Name, now: Moment, actions: &mut Vec<Action>) {
        if self.bugs.has(Bug::ReleaseBeforeLocalLoss)
            && let Some(Phase::Ending(Ending { term, .. })) =
                self.leases.get(name).map(|lease| &lease.phase)
        {
            let told = tell(name, *term, Happening::SteppedDown { successor: None });
            actions.extend([Action::Disbelieve(name.clone()), told]);
        }
        self.settle(name, now);
    }

    /// A release may or may not have acted. One who contends again finds out by looking; one who leaves tries again until
    /// the lease has run out.
    pub(crate) fn release_failed(&mut self, name: &Name, now: Moment) {
        let retry = self.retry();
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Ending(Ending { release: Some(release), .. }) = &mut lease.phase else { return };
        let again = now + retry;
        // A successor is waiting for the reservation: worth another try.
        let worth_it = !lease.wanted || release.successor.is_some();
        if worth_it && again < release.until {
            release.due = again;
        } else {
            self.settle(name, now);
        }
    }

    /// Ends the ending: follow if wanted, rest if not.
    pub(crate) fn settle(&mut self, name: &Name, now: Moment) {
        let courtesy = self.timing.courtesy;
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Ending(ending) = &lease.phase else { return };
        let pause = if ending.by_choice { courtesy } else { Duration::ZERO };
        if lease.wanted {
            lease.phase = follow(now, now + pause);
        } else {
            self.rest(name);
        }
    }
}
