//! Choosing the next request: one at a time, renewals first.

use crate::clock::Moment;
use crate::identity::Name;
use crate::protocol::input::{Action, Request};
use crate::protocol::lease::{Ending, Lease, Next, Phase, Releasing};
use crate::protocol::sight;
use crate::protocol::state::{InFlight, State};
use crate::request::{Ask, Release, Renew, Renewal};

impl State {
    /// Sends what is due, if nothing is on its way.
    pub(crate) fn pump(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.in_flight.is_some() {
            return;
        }
        let request = self
            .renew_due(now)
            .or_else(|| self.first(|name, lease| self.release_due(name, lease, now)))
            .or_else(|| self.note_due(now))
            .or_else(|| self.first(|name, lease| self.contention_due(name, lease, now)))
            .or_else(|| self.look_due(now));
        let Some(request) = request else { return };
        let id = self.next_id();
        let give_up = now + self.timing.request_timeout;
        let (request_on_its_way, dark, news) = (request.clone(), false, false);
        self.in_flight =
            Some(InFlight { id, sent: now, give_up, request: request_on_its_way, dark, news });
        actions.push(Action::Send(id, request));
    }

    fn first(&self, due: impl Fn(&Name, &Lease) -> Option<Request>) -> Option<Request> {
        self.leases.iter().find_map(|(name, lease)| due(name, lease))
    }

    /// All leases travel with the first that is due, unless they were renewed just now: soon they are all due together.
    fn renew_due(&self, now: Moment) -> Option<Request> {
        let holding = |lease: &Lease| match &lease.phase {
            // What is being let go of is kept, not renewed: work that does not stop must not keep it for ever.
            Phase::Holding(held) if held.draining.is_none() => Some((held.renew_at, held.term)),
            _ => None,
        };
        if !self.leases.values().filter_map(holding).any(|(renew_at, _)| renew_at <= now) {
            return None;
        }
        let soon = now + self.timing.renew_every / 2;
        let leases = self.leases.iter().filter_map(|(name, lease)| {
            let (renew_at, term) = holding(lease)?;
            let renewal = || Renewal { name: name.clone(), term, ttl: self.timing.ttl };
            (renew_at <= soon).then(renewal)
        });
        Some(Request::Renew(Renew {
            incarnation: self.incarnation,
            leases: leases.collect(),
            beat: sight::beat(now),
            not_after: self.not_after(now),
        }))
    }

    fn release_due(&self, name: &Name, lease: &Lease, now: Moment) -> Option<Request> {
        let Phase::Ending(ending) = &lease.phase else { return None };
        let Ending { term, work_ended: true, release: Some(release), .. } = ending else {
            return None;
        };
        let Releasing { successor, due, .. } = release;
        let successor = successor.clone().map(|holder| (holder, self.timing.reservation));
        (*due <= now).then(|| {
            Request::Release(Release {
                name: name.clone(),
                incarnation: self.incarnation,
                term: *term,
                successor,
                not_after: self.not_after(now),
            })
        })
    }

    fn contention_due(&self, name: &Name, lease: &Lease, now: Moment) -> Option<Request> {
        let Phase::Following(following) = &lease.phase else { return None };
        if !lease.wanted || following.due > now {
            return None;
        }
        match &following.next {
            Next::Look => None,
            Next::Acquire { unchanged } => {
                Some(Request::Acquire(self.acquire_request(name, lease, *unchanged, now)))
            }
            Next::Ask { term } => Some(Request::Ask(Ask {
                name: name.clone(),
                term: *term,
                successor: Some(self.holder.clone()),
                over: Some(lease.wish.priority),
                not_after: self.not_after(now),
            })),
        }
    }

    fn look_due(&self, now: Moment) -> Option<Request> {
        let due = |lease: &Lease| {
            matches!(&lease.phase, Phase::Following(following)
                if lease.wanted && following.due <= now && following.next == Next::Look)
        };
        let names: Vec<_> = self
            .leases
            .iter()
            .filter(|(_, lease)| due(lease))
            .map(|(name, _)| name.clone())
            .collect();
        (!names.is_empty()).then_some(Request::Look(names))
    }
}
