//! How many orders an account may make: its pause, the orders in flight, and its budget as a token bucket in one
//! timestamp (GCRA): when the bucket will be full again. Pure, so that both databases reckon alike.

use std::time::Duration;

use holdfast_model::Timestamp;

use crate::{Claimed, OrderLimits};

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

    /// The bucket once `orders` were made.
    pub(crate) fn taken(self, now: Timestamp, orders: u32) -> Self {
        let full_at = now.plus(self.missing(now) + self.cost() * orders);
        Self { full_at: Some(full_at), ..self }
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
    pub(crate) paused_until: Option<Timestamp>,
    pub(crate) budget: Budget,
    pub(crate) in_flight: u32,
    /// How many orders were given ever.
    pub(crate) turn: i64,
}

impl Room {
    /// How many orders.
    pub(crate) fn allowed(&self, limits: OrderLimits) -> u32 {
        if self.paused_until.is_some() {
            return 0;
        }
        self.budget.available(self.now).min(limits.in_flight.saturating_sub(self.in_flight))
    }

    /// When the clock alone opens the queue again, if it does, after `work` was taken of what was allowed.
    pub(crate) fn ask_again_at(&self, work: &[Claimed], allowed: u32) -> Option<Timestamp> {
        if self.paused_until.is_some() {
            return self.paused_until;
        }
        let taken = u32::try_from(work.len()).unwrap_or(u32::MAX);
        if taken < allowed {
            // The queue is empty.
            return None;
        }
        self.budget.taken(self.now, taken).next_at(self.now)
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

    proptest! {
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
