//! The store of the model: the rules, and what no operation may do whatever it answers.

use super::world::{Message, Process, World};
use super::{LeaseModel, TICK};
use crate::protocol::{Input, Reply, Request, RequestId};
use crate::request::{Acquire, Acquired, At, Renew};
use crate::row::{Change, Row, StoreTime};

impl LeaseModel {
    pub(super) fn serve(
        &self,
        world: &mut World,
        (index, session): (usize, u8),
        id: RequestId,
        request: &Request,
    ) {
        let at = world.store_time();
        let before = world.slot.row.clone();
        let reply = match request {
            Request::Look(_) => {
                Reply::Looked(At { at, answer: vec![(before, world.beacon_gone())] })
            }
            Request::Acquire(acquire) => {
                let lit = session != 0 && world.processes[index].open == session;
                let acquire = Acquire { beacon: acquire.beacon && lit, ..acquire.clone() };
                Reply::Acquired(At { at, answer: acquired(world, &acquire, session, at) })
            }
            Request::Renew(renew) => {
                let slot = &mut world.slot;
                let answer =
                    renew.leases.iter().map(|lease| slot.renew(renew, lease, at)).collect();
                let own = |row: &Row| row.is_of(renew.incarnation);
                if let Some(row) =
                    world.slot.row.as_ref().filter(|row| before.as_ref() != Some(row))
                {
                    let said = row.beat == renew.beat;
                    let lived = if said { sent(renew, &world.processes[index]) } else { world.now };
                    world.lived = world.lived.max(lived);
                }
                if world.slot.row != before && !before.as_ref().is_some_and(own) {
                    world.broken = Some("I5");
                }
                Reply::Renewed(At { at, answer })
            }
            Request::Release(release) => {
                let (answer, _) = world.slot.release(release, at);
                if world.slot.row.is_none() && before.is_some() {
                    world.broken = Some("I3");
                }
                Reply::Released(At { at, answer })
            }
            Request::Ask(ask) => Reply::Asked(At { at, answer: world.slot.ask(ask, at) }),
        };
        world.messages.push(Message::Reply(index, id, reply));
    }

    pub(super) fn deliver(&self, world: &mut World, at: usize, twice: bool) {
        let message = if twice { world.messages[at].clone() } else { world.messages.remove(at) };
        match message {
            Message::Request(index, session, id, request) => {
                self.serve(world, (index, session), id, &request);
            }
            Message::Reply(index, id, reply) if world.processes[index].alive => {
                self.feed(world, index, Input::Answered(id, reply));
            }
            Message::Reply(..) => {}
        }
    }
}

fn acquired(world: &mut World, acquire: &Acquire, session: u8, at: StoreTime) -> Acquired {
    let before = world.slot.row.clone();
    let dark = world.named.2;
    world.slot.beacon_gone = world.beacon_gone();
    let (answer, changed) = world.slot.acquire(acquire, at);
    world.slot.beacon_gone = false;
    if matches!(answer, Acquired::Granted(_)) {
        world.named = (if acquire.beacon { session } else { 0 }, world.restarts, false);
    }
    let Some(changed) = changed else { return answer };
    if changed.term <= world.highest {
        world.broken = Some("I3");
    }
    world.highest = world.highest.max(changed.term);
    let unchanged_for = TICK * (world.now - world.lived);
    world.lived = world.now;
    world.taken_lifeless |= changed.change == Change::Unchanged;
    world.taken_in_the_dark |= changed.change == Change::BeaconGone;
    let taken = |row: &Row| row.owner.is_some() && !row.is_of(acquire.incarnation);
    let live = |row: &Row| {
        let gone = acquire.beacon && row.beacon && dark;
        let lifeless = acquire.unchanged.is_some() && unchanged_for >= row.ttl;
        row.expires_at >= at && !lifeless && !gone
    };
    if before.as_ref().is_some_and(|row| taken(row) && live(row)) {
        world.broken = Some("I5");
    }
    answer
}

/// When a renewal was sent, in true time: its beat is its sender's clock.
fn sent(renew: &Renew, by: &Process) -> u32 {
    let ticks = renew.beat / 1_000_000 - 100 + i64::from(by.lag);
    u32::try_from(ticks).unwrap_or_default()
}
