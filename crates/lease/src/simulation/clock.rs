//! Clocks that run a little fast or slow, and one that steps.

use super::Micros;
use crate::clock::Moment;
use crate::row::StoreTime;

/// Where the store's clock begins: any number far from zero.
const EPOCH: i64 = 1_700_000_000_000_000;

/// A clock that runs at its own rate, off by parts per million.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skew {
    pub(crate) ppm: i64,
    pub(crate) offset: u64,
}

impl Skew {
    fn local(self, now: Micros) -> u64 {
        // A world lasts minutes: no need for wider numbers, whose division is slow.
        let now = i64::try_from(now).unwrap_or(i64::MAX / 10_000);
        u64::try_from(now + now.saturating_mul(self.ppm) / 1_000_000).unwrap_or_default()
    }

    /// What a process's boot clock shows.
    pub(crate) fn moment(self, now: Micros) -> Moment {
        Moment::from_nanos((self.local(now) + self.offset) * 1_000)
    }

    /// The first true time at which the clock shows this moment or a later one.
    pub(crate) fn true_time(self, moment: Moment) -> Micros {
        let local = i128::from((moment.as_nanos().div_ceil(1_000)).saturating_sub(self.offset));
        let guess = local * 1_000_000 / (1_000_000 + i128::from(self.ppm));
        let mut now = u64::try_from(guess.saturating_sub(2)).unwrap_or_default();
        while self.moment(now) < moment {
            now += 1;
        }
        now
    }
}

/// The store's wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    pub(crate) skew: Skew,
    /// How far it was stepped.
    pub(crate) step: i64,
    /// What it counts in: microseconds, or something coarser.
    pub(crate) grain: i64,
}

impl WallClock {
    pub(crate) fn now(self, now: Micros) -> StoreTime {
        let local = i64::try_from(self.skew.local(now)).unwrap_or(i64::MAX);
        let now = EPOCH + local + self.step;
        StoreTime::from_micros(now - now.rem_euclid(self.grain))
    }
}
