//! Taking answers: only the answer to the request on its way counts, and only once.

use crate::clock::Moment;
use crate::identity::Name;
use crate::protocol::input::{Action, Reply, Request, RequestId};
use crate::protocol::lease::Phase;
use crate::protocol::state::{InFlight, State};
use crate::request::{Acquired, At, Renew, Renewed};
use crate::row::StoreTime;

impl State {
    /// Gives up the request on its way when its time is over. What it did is unknown.
    pub(crate) fn give_up(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let Some(flight) = self.in_flight.take_if(|flight| flight.give_up <= now) else { return };
        actions.push(Action::Abandon(flight.id));
        self.unanswered(flight.request, now);
    }

    pub(crate) fn failed(&mut self, id: RequestId, now: Moment) {
        if let Some(flight) = self.in_flight.take_if(|flight| flight.id == id) {
            self.unanswered(flight.request, now);
        }
    }

    fn unanswered(&mut self, request: Request, now: Moment) {
        match request {
            Request::Look(names) => names.iter().for_each(|name| self.stumble(name, now)),
            Request::Acquire(acquire) => {
                self.note_again(now);
                self.stumble(&acquire.name, now);
            }
            Request::Ask(ask) => self.stumble(&ask.name, now),
            Request::Release(release) => self.release_failed(&release.name, now),
            Request::Renew(renew) => {
                let again = now + self.retry();
                for renewal in renew.leases {
                    if let Some(lease) = self.leases.get_mut(&renewal.name)
                        && let Phase::Holding(held) = &mut lease.phase
                    {
                        held.renew_at = again;
                    }
                }
            }
        }
    }

    pub(crate) fn answered(
        &mut self,
        id: RequestId,
        reply: Reply,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let Some(flight) = self.in_flight.take_if(|flight| flight.id == id) else { return };
        let InFlight { sent, request, dark, news, .. } = flight;
        let overtaken =
            if news { request.names().into_iter().cloned().collect() } else { Vec::new() };
        match (request, reply) {
            (Request::Look(names), Reply::Looked(At { at, answer })) => {
                self.heard(at, sent, now);
                for (name, (row, beacon_gone)) in names.iter().zip(answer) {
                    self.saw(name, row.as_ref(), beacon_gone, at, now);
                }
            }
            (Request::Acquire(acquire), Reply::Acquired(At { at, answer })) => {
                self.heard(at, sent, now);
                self.acquired(&acquire.name, &answer, at, (sent, now, dark), actions);
            }
            (Request::Renew(renew), Reply::Renewed(At { at, answer })) => {
                self.heard(at, sent, now);
                self.renewed_all(renew, answer, (sent, now), actions);
            }
            (Request::Release(release), Reply::Released(At { at, answer })) => {
                self.heard(at, sent, now);
                if answer || at <= release.not_after {
                    self.released(&release.name, now, actions);
                } else {
                    // It came too late to act: the row may still be ours.
                    self.release_failed(&release.name, now);
                }
            }
            (Request::Ask(ask), Reply::Asked(At { at, .. })) => {
                self.heard(at, sent, now);
                self.asked(&ask.name, now);
            }
            // Not an answer to this request: as good as none.
            (request, _) => self.unanswered(request, now),
        }
        self.overtaken(&overtaken, now);
    }

    fn renewed_all(
        &mut self,
        renew: Renew,
        answers: Vec<Renewed>,
        (sent, now): (Moment, Moment),
        actions: &mut Vec<Action>,
    ) {
        for (renewal, answer) in renew.leases.into_iter().zip(answers) {
            self.renewed((&renewal.name, renewal.term), answer, sent, now, actions);
        }
    }

    fn acquired(
        &mut self,
        name: &Name,
        answer: &Acquired,
        at: StoreTime,
        (sent, now, dark): (Moment, Moment, bool),
        actions: &mut Vec<Action>,
    ) {
        if let Acquired::Granted(row) = answer {
            return self.granted(name, row, (sent, now, dark), actions);
        }
        let Some(lease) = self.leases.get_mut(name) else { return };
        match &mut lease.phase {
            Phase::Following(following) => {
                following.look_at(now);
                if !lease.wanted {
                    self.rest(name);
                    return;
                }
            }
            // It was to have its beacon noted, and is another's: a renewal finds out whose.
            Phase::Holding(held) => {
                held.renew_at = now;
                self.note_again(now);
            }
            _ => {}
        }
        if let Acquired::Refused(Some(row)) = answer {
            self.saw(name, Some(row), false, at, now);
        }
    }

    fn asked(&mut self, name: &Name, now: Moment) {
        let poll = self.timing.poll;
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Following(following) = &mut lease.phase else { return };
        following.asked_at = Some(now);
        following.look_at(now + poll);
    }
}
