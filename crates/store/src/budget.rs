//! How many orders an account may make: its pause, the orders in flight, and its budget as a token bucket in one
//! timestamp (GCRA): when the bucket will be full again. Pure, so that both databases reckon alike.

use std::time::Duration;

use holdfast_model::Timestamp;

use crate::{OrderLimits, lane::turns_of_new};

const WINDOW: Duration = Duration::from_secs(3 * 3600);

/// A bucket that holds `per_3h` orders and refills evenly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    full_at: Option<Timestamp>,
    per_3h: u32,
}

impl Budget {
    pub(crate) const fn new(full_at: Option<Timestamp>, per_3h: u32) -> Self {
        Self { full_at, per_3h }
    }

    /// How long the bucket takes to refill by one order.
    pub(crate) fn cost(self) -> Duration {
        // Whole microseconds, as databases keep them: what is taken and given back must cancel.
        let micros = WINDOW.as_micros() / u128::from(self.per_3h.max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// How many orders may be made now.
    pub(crate) fn available(self, now: Timestamp) -> u32 {
        let room = self.capacity().saturating_sub(self.missing(now));
        u32::try_from(room.as_micros() / self.cost().as_micros().max(1)).unwrap_or(u32::MAX)
    }

    /// When the next order may be made; none when one may now.
    pub(crate) fn next_at(self, now: Timestamp) -> Option<Timestamp> {
        if self.available(now) > 0 {
            return None;
        }
        let over = (self.missing(now) + self.cost()).saturating_sub(self.capacity());
        Some(now.plus(over))
    }

    /// When there is room for so many orders.
    pub(crate) fn room_for(self, now: Timestamp, orders: u64) -> Timestamp {
        let orders = u32::try_from(orders).unwrap_or(u32::MAX);
        let needed = self.missing(now).saturating_add(self.cost().saturating_mul(orders));
        now.plus(needed.saturating_sub(self.capacity()))
    }

    /// The bucket once `orders` were made.
    pub(crate) fn taken(self, now: Timestamp, orders: u32) -> Self {
        let full_at = now.plus(self.missing(now) + self.cost() * orders);
        Self { full_at: Some(full_at), ..self }
    }

    /// A number that rises by one with each order while the budget is spent.
    fn slot(self) -> i64 {
        let cost = i64::try_from(self.cost().as_micros()).unwrap_or(i64::MAX).max(1);
        self.full_at.map_or(0, |full_at| full_at.as_micros().div_euclid(cost))
    }

    pub(crate) const fn full_at(self) -> Option<Timestamp> {
        self.full_at
    }

    fn capacity(self) -> Duration {
        self.cost() * self.per_3h
    }

    /// Is it further away than it can honestly be? Then a clock was wrong, and the orders that were
    /// made say what is missing.
    pub(crate) fn is_beyond_capacity(self, now: Timestamp) -> bool {
        self.full_at.is_some_and(|full_at| full_at.since(now) > self.capacity())
    }

    fn missing(self, now: Timestamp) -> Duration {
        self.full_at.map_or(Duration::ZERO, |full_at| full_at.since(now)).min(self.capacity())
    }
}

/// What an account allows now.
pub(crate) struct Room {
    pub(crate) now: Timestamp,
    pub(crate) pause: Option<Pause>,
    pub(crate) budget: Budget,
    pub(crate) in_flight: u32,
    /// How many orders were given ever.
    pub(crate) turn: i64,
}

/// An account that is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    /// None: until a person ends it.
    pub(crate) until: Option<Timestamp>,
}

impl Pause {
    /// Both hold: the one that ends last, and one without an end is longer than any.
    pub(crate) fn longest(pauses: impl IntoIterator<Item = Self>) -> Option<Self> {
        pauses.into_iter().max_by_key(|pause| (pause.until.is_none(), pause.until))
    }
}

/// How many orders may be given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// In all.
    pub(crate) orders: u32,
    /// Of those, how many that are charged to the budget.
    pub(crate) charged: u32,
}

impl Room {
    /// Renewals are not charged to the budget: only the orders in flight bound them.
    pub(crate) fn allowed(&self, limits: OrderLimits, limit: u32) -> Allowed {
        if self.pause.is_some() {
            return Allowed { orders: 0, charged: 0 };
        }
        let orders = limits.in_flight.saturating_sub(self.in_flight).min(limit);
        Allowed { orders, charged: self.budget.available(self.now).min(orders) }
    }

    /// How many of those allowed are first offered to who has no certificate yet. Where the budget is what bounds, its own slots take
    /// turns: renewals that cost nothing go on meanwhile, and are not to move the turn of those that wait.
    pub(crate) fn first_for_new(&self, allowed: Allowed) -> u32 {
        match allowed.charged < allowed.orders {
            true => turns_of_new(self.budget.slot(), allowed.charged),
            false => turns_of_new(self.turn, allowed.orders),
        }
    }

    /// When the clock alone opens the queue again, if it does, after `orders` were given, of which `charged` cost something.
    pub(crate) fn ask_again_at(&self, given: Allowed, allowed: Allowed) -> Option<Timestamp> {
        if let Some(pause) = self.pause {
            return pause.until;
        }
        if given.orders < allowed.orders && given.charged < allowed.charged {
            // The queue is empty.
            return None;
        }
        self.budget.taken(self.now, given.charged).next_at(self.now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_full_bucket_gives_all_at_once_then_one_each_36_seconds() {
        let budget = Budget::new(None, 300);
        assert_eq!(budget.available(at(0)), 300);
        let spent = budget.taken(at(0), 300);
        assert_eq!(spent.available(at(35)), 0);
        assert_eq!(spent.next_at(at(0)), Some(at(36)));
        assert_eq!(spent.available(at(36)), 1);
        assert_eq!(spent.available(at(10_800)), 300);
    }

    #[test]
    fn a_budget_of_nothing_never_opens() {
        let budget = Budget::new(None, 0);
        assert_eq!(budget.available(at(0)), 0);
        assert!(budget.next_at(at(0)).is_some_and(|next| next > at(0)));
    }

    fn room(budget: Budget, in_flight: u32, turn: i64) -> Room {
        Room { now: at(0), pause: None, budget, in_flight, turn }
    }

    #[test]
    fn a_spent_budget_holds_up_the_new_alone() {
        let limits = OrderLimits { per_3h: 300, in_flight: 64 };
        let spent = room(Budget::new(None, 300).taken(at(0), 300), 4, 3);
        let allowed = spent.allowed(limits, 100);
        assert_eq!(allowed, Allowed { orders: 60, charged: 0 });
        assert_eq!(spent.first_for_new(allowed), 0);
        // All renewals were given: the clock opens it for the new.
        let given = Allowed { orders: 7, charged: 0 };
        assert_eq!(spent.ask_again_at(given, allowed), Some(at(36)));
        let full = room(Budget::new(None, 300), 64, 3).allowed(limits, 100);
        assert_eq!(full, Allowed { orders: 0, charged: 0 }, "orders in flight bound renewals too");
    }

    #[test]
    fn of_two_pauses_the_longer_holds() {
        let (short, long) = (Pause { until: Some(at(1)) }, Pause { until: Some(at(2)) });
        let endless = Pause { until: None };
        assert_eq!(Pause::longest([long, short]), Some(long));
        assert_eq!(Pause::longest([endless, long]), Some(endless));
        assert_eq!(Pause::longest([]), None);
        let paused = Room { pause: Some(endless), ..room(Budget::new(None, 300), 0, 0) };
        let limits = OrderLimits { per_3h: 300, in_flight: 64 };
        let allowed = paused.allowed(limits, 9);
        assert_eq!(allowed, Allowed { orders: 0, charged: 0 });
        assert_eq!(paused.ask_again_at(allowed, allowed), None, "the clock does not end it");
    }

    /// One slot at a time, and any number of renewals between: one of four is for the new.
    #[test]
    fn the_slots_of_a_spent_budget_take_turns() {
        let limits = OrderLimits { per_3h: 300, in_flight: 64 };
        let (mut budget, mut new) = (Budget::new(None, 300).taken(at(0), 300), Vec::new());
        for slot in 1..=40 {
            let now = at(slot * 36);
            let room = Room { now, turn: 3, pause: None, budget, in_flight: 0 };
            let allowed = room.allowed(limits, 64);
            assert_eq!(allowed, Allowed { orders: 64, charged: 1 });
            new.push(room.first_for_new(allowed));
            budget = budget.taken(now, 1);
        }
        assert!(new.chunks(4).all(|four| four.iter().sum::<u32>() == 1), "{new:?}");
    }

    #[test]
    fn a_queue_drains_at_the_pace_of_the_budget() {
        let budget = Budget::new(None, 300);
        assert_eq!(budget.room_for(at(0), 300), at(0));
        assert_eq!(budget.room_for(at(0), 400), at(3_600));
        assert_eq!(budget.taken(at(0), 300).room_for(at(0), 1), at(36));
    }

    proptest! {
        /// Whatever is asked for: what is charged fits into the budget, and all of it among the orders in flight.
        #[test]
        fn no_more_is_allowed_than_there_is_room_for(
            per_3h in 0_u32..500, spent in 0_u32..600, in_flight in 0_u32..100, limit in 0_u32..200, turn in 0_i64..9,
        ) {
            let limits = OrderLimits { per_3h, in_flight: 64 };
            let budget = Budget::new(None, per_3h).taken(at(0), spent);
            let room = room(budget, in_flight, turn);
            let allowed = room.allowed(limits, limit);
            prop_assert!(allowed.charged <= allowed.orders && allowed.charged <= budget.available(at(0)));
            prop_assert_eq!(allowed.orders, limit.min(64_u32.saturating_sub(in_flight)), "a budget bounds no renewal");
            prop_assert!(room.first_for_new(allowed) <= allowed.charged);
        }

        #[test]
        fn never_more_than_burst_and_refill(
            per_3h in 1_u32..2_000,
            asks in prop::collection::vec((0_u64..600, 1_u32..50), 1..200),
        ) {
            let (mut budget, mut now, mut made) = (Budget::new(None, per_3h), 0, 0_u64);
            for (pause, wanted) in asks {
                now += pause;
                let give = wanted.min(budget.available(at(now)));
                prop_assert_eq!(budget.next_at(at(now)).is_none(), budget.available(at(now)) > 0);
                if give > 0 {
                    budget = budget.taken(at(now), give);
                    made += u64::from(give);
                }
                let refilled = Duration::from_secs(now).as_micros() / budget.cost().as_micros();
                prop_assert!(u128::from(made) <= u128::from(per_3h) + refilled);
            }
        }

        /// Whatever a wrong clock stored: the next order waits for one refill at most.
        #[test]
        fn no_budget_is_further_away_than_its_capacity(per_3h in 1_u32..2_000, full_at in any::<i64>()) {
            let full_at = Timestamp::from_micros(full_at);
            let budget = Budget::new(Some(full_at), per_3h);
            let next = budget.next_at(at(0)).unwrap_or(at(0));
            prop_assert!(next <= at(0).plus(budget.cost()));
            prop_assert_eq!(budget.is_beyond_capacity(at(0)), full_at.since(at(0)) > budget.cost() * per_3h);
            prop_assert!(!budget.taken(at(0), 0).is_beyond_capacity(at(0)));
        }

        #[test]
        fn the_next_slot_is_when_one_opens(per_3h in 1_u32..2_000) {
            let spent = Budget::new(None, per_3h).taken(at(0), per_3h);
            let next = spent.next_at(at(0)).unwrap();
            prop_assert_eq!(spent.available(next), 1);
            prop_assert_eq!(spent.available(next.minus(Duration::from_micros(1))), 0);
        }
    }
}
