//! Following: judging what was seen, and planning what to do about it.

use std::time::Duration;

use crate::clock::Moment;
use crate::identity::{Name, Term};
use crate::protocol::bug::Bug;
use crate::protocol::lease::{Lease, Next, Phase};
use crate::protocol::sight::Sight;
use crate::protocol::state::State;
use crate::request::Acquire;
use crate::row::{Row, StoreTime};
use crate::rules;

/// The least time between two looks at a row whose expiry the two clocks disagree about.
const GAP: Duration = Duration::from_millis(2);

/// How many steps of priority a contender hesitates at most.
const MOST_STEPS: i32 = 10;

impl State {
    /// What the store showed of a lease, and when by its clock.
    pub(crate) fn saw(
        &mut self,
        name: &Name,
        row: Option<&Row>,
        beacon_gone: bool,
        at: StoreTime,
        now: Moment,
    ) {
        let Some(lease) = self.leases.get(name) else { return };
        let Phase::Following(following) = &lease.phase else { return };
        let Some(row) = row else { return self.plan_acquire(name, Duration::ZERO, now) };
        let sight = Sight::of(following.sight, row, (&self.timing, self.bugs), now);
        let probe = self.acquire_request(name, lease, None, now);
        let equal = self.bugs.has(Bug::StealOnEqualExpiry) && row.expires_at == at;
        let free = equal || rules::may_take(row, &probe, beacon_gone, at).is_some();
        let hesitation = self.hesitation(lease, row);
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Following(following) = &mut lease.phase else { return };
        following.sight = Some(sight);
        following.ready = hesitation.is_zero();
        if free {
            self.plan_acquire(name, hesitation, now);
        } else {
            self.plan_wait(name, row, sight, at, now);
        }
    }

    fn plan_acquire(&mut self, name: &Name, hesitation: Duration, now: Moment) {
        let (lit, patience) = (self.lit, self.timing.request_timeout);
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Following(following) = &mut lease.phase else { return };
        following.next = Next::Acquire { unchanged: None };
        following.due = following.not_before.max(now + hesitation);
        // What is won in the dark is held without a beacon: wait a little for it to be lit.
        if lease.beacon && !lit {
            following.due = following.due.max(following.began + patience);
        }
    }

    /// Whoever waited for the beacon looks again; what is held without it is to name it.
    pub(crate) fn beacon_lit(&mut self, now: Moment) {
        (self.lit, self.note_at) = (true, now);
        for lease in self.leases.values_mut().filter(|lease| lease.beacon) {
            if let Phase::Following(following) = &mut lease.phase {
                following.look_at(now);
            }
        }
    }

    /// Someone else's: look again when it should have expired, or take it when it has shown no life for a whole lease.
    fn plan_wait(&mut self, name: &Name, row: &Row, sight: Sight, at: StoreTime, now: Moment) {
        let still_until = sight.still_since(self.is_set_back(now)) + self.timing.still(row.ttl);
        // A little late, so that a renewal just made is seen: what is seen soon after it was made is dated well.
        let expiry = now + row.expires_at.since(at) + GAP.max(self.timing.poll / 16);
        let beacon = row.beacon && self.leases.get(name).is_some_and(|lease| lease.beacon);
        let poll = match (beacon && self.lit, self.listening) {
            (true, _) => self.timing.beacon,
            (false, true) if !sight.is_first() || row.owner.is_none() => self.timing.ttl,
            (false, true) => self.timing.poll,
            (false, false) => self.timing.poll,
        };
        let poll = now + poll + self.jitter(poll / 8);
        let ask_at = self.ask_at(name, row, sight);
        let never = self.bugs.has(Bug::NoPolling);
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Following(following) = &mut lease.phase else { return };
        if now >= still_until {
            following.next = Next::Acquire { unchanged: Some(sight.version) };
            following.due = following.not_before.max(now);
        } else if ask_at.is_some_and(|ask_at| ask_at <= now) {
            following.next = Next::Ask { term: row.term };
            following.due = now;
        } else {
            let soonest = expiry.min(still_until).min(poll);
            following.look_at(ask_at.map_or(soonest, |ask_at| soonest.min(ask_at)));
            if never {
                following.due = now + Duration::from_secs(1 << 20);
            }
        }
    }

    /// When this process may ask the owner to step down in its favour; none if it may not.
    fn ask_at(&self, name: &Name, row: &Row, sight: Sight) -> Option<Moment> {
        let lease = self.leases.get(name)?;
        let Phase::Following(following) = &lease.phase else { return None };
        let failback = lease.wish.failback?;
        let preferred = row.owner.is_some() && row.priority < lease.wish.priority;
        if !preferred || row.step_down {
            return None;
        }
        if self.bugs.has(Bug::FailbackWithoutCooldown) {
            return Some(sight.still_since(false));
        }
        let steady = following.steady_since + failback.stable;
        let cooled = sight.term_since + failback.cooldown;
        let again = following.asked_at.map_or(cooled, |asked| asked + failback.cooldown);
        Some(steady.max(cooled).max(again))
    }

    /// Those below the last holder's priority let others go first.
    fn hesitation(&self, lease: &Lease, row: &Row) -> Duration {
        let below = i32::from(row.priority.0) - i32::from(lease.wish.priority.0);
        let steps = u32::try_from(below.min(MOST_STEPS)).unwrap_or_default();
        // Reserved for this process, or its own: nobody else may go first.
        let sure = row.successor.as_ref() == Some(&self.holder) || row.is_of(self.incarnation);
        if sure { Duration::ZERO } else { self.timing.priority_step * steps }
    }

    pub(crate) fn acquire_request(
        &self,
        name: &Name,
        lease: &Lease,
        unchanged: Option<crate::row::Version>,
        now: Moment,
    ) -> Acquire {
        let above = if self.bugs.has(Bug::TermOfOwnRowReused) { Term::NONE } else { lease.ended };
        Acquire {
            name: name.clone(),
            holder: self.holder.clone(),
            incarnation: self.incarnation,
            priority: lease.wish.priority,
            ttl: self.timing.ttl,
            above,
            unchanged,
            beacon: lease.beacon && self.lit,
            not_after: self.not_after(now),
        }
    }

    /// A request about this lease failed: try again soon, and count as unsteady.
    pub(crate) fn stumble(&mut self, name: &Name, now: Moment) {
        let retry = self.retry();
        let pause = retry + self.jitter(retry);
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Following(following) = &mut lease.phase else { return };
        if !lease.wanted {
            self.rest(name);
            return;
        }
        following.look_at(now + pause);
        following.steady_since = now;
    }
}
