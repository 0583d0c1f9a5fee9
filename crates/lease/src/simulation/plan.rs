//! What a seed decides before the world begins.

use std::time::Duration;

use super::{Dice, Micros};
use crate::identity::{Name, Priority};
use crate::options::{Options, Timing};
use crate::protocol::bug::Bug;
use crate::protocol::{Failback, Input, Wish};

pub(crate) const SECOND: Micros = 1_000_000;

/// The class of a seed, and its sizes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) bug: Option<Bug>,
    pub(crate) processes: usize,
    pub(crate) names: usize,
    /// How long faults happen.
    pub(crate) stormy: Micros,
    /// The store may lose rows; terms are registered elsewhere.
    pub(crate) weak: bool,
    /// The store's clock may step far, and operators may force a lease free: what holds only within the declared limits
    /// (I1, I2) is not asked for.
    pub(crate) wild: bool,
    /// Leases with a beacon: I1 and I2 are given up for speed.
    pub(crate) beacon: bool,
    /// Processes have different priorities, and take leases back.
    pub(crate) ranked: bool,
    /// Two processes bear one name.
    pub(crate) twins: bool,
    /// Faults happen once in so many microseconds.
    pub(crate) fault_every: Micros,
    pub(crate) timing: Timing,
}

impl Plan {
    pub(crate) fn draw(seed: u64, bug: Option<Bug>) -> Self {
        let mut dice = Dice(seed ^ 0x5eed);
        let options = Options {
            priority_step: Duration::from_millis(20),
            ..Options::with_lease(Duration::from_secs(3), Duration::from_secs(1))
        };
        let class = dice.roll(8);
        Self {
            seed,
            bug,
            processes: usize::try_from(dice.between(2, 4)).unwrap_or(2),
            names: usize::try_from(dice.between(1, 2)).unwrap_or(1),
            stormy: dice.between(10, 30) * SECOND,
            weak: class == 0,
            wild: class == 1 || class == 2,
            beacon: class == 3,
            ranked: dice.once_in(2),
            twins: dice.once_in(4),
            fault_every: dice.between(300_000, 3 * SECOND),
            timing: options.timing().unwrap(),
        }
    }

    /// Whether at most one process may believe, and only while the store's row says so.
    pub(crate) fn strict(&self) -> bool {
        !self.weak && !self.wild && !self.beacon
    }

    pub(crate) fn wish(&self, process: usize) -> Wish {
        let rank = i16::try_from(process).unwrap_or_default();
        let failback =
            Failback { stable: Duration::from_secs(2), cooldown: Duration::from_secs(4) };
        Wish {
            priority: if self.ranked { Priority(rank) } else { Priority(0) },
            failback: self.ranked.then_some(failback),
        }
    }

    pub(crate) fn contend(&self, name: Name, process: usize) -> Input {
        Input::Contend { name, wish: self.wish(process), beacon: self.beacon }
    }

    pub(crate) fn guard_limit(&self) -> Micros {
        micros(self.timing.ttl / 3)
    }

    /// After the faults have ended, an owner within this time: a whole lease seen without life, a guard that was open, a
    /// look, the hesitation of the lowest rank, a reservation nobody takes up, and a few lost tries.
    pub(crate) fn owner_within(&self) -> Micros {
        let timing = &self.timing;
        let lease = timing.still(timing.ttl);
        let look = timing.poll * 2 + timing.retry * 4 + timing.request_timeout * 4;
        let others = timing.reservation + timing.priority_step * 10;
        micros(lease + look + others) + self.guard_limit()
    }
}

impl Plan {
    /// From the death of an owner while nothing else goes wrong, though the store's clock is set back: a lease, and what drift and
    /// steps of the clock may take; by as much as the age of its last sign of life may be misjudged, a poll and the drift of a whole
    /// life; and a few messages.
    pub(crate) fn followed_within(&self, lived: Micros) -> Micros {
        let timing = &self.timing;
        let misjudged = timing.poll * 5 / 4 + timing.drift_of(Duration::from_micros(lived));
        micros(timing.still(timing.ttl) + misjudged) + SECOND / 20
    }
}

pub(crate) fn micros(span: Duration) -> Micros {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
