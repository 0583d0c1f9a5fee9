//! Stored moments, and how far in the future each of them can honestly be. A clock that was wrong
//! for a while leaves moments behind that are further away; nobody may wait for them once it is
//! right again.
//!
//! A moment that was written later than now was written by a clock that was ahead. It counts from
//! now on, as if it had been written now.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::Timestamp;

use crate::{Fence, Result};

/// A sign of life this much later than now is no error of a clock yet; anything later is no sign of
/// life.
pub(crate) const TOLERANCE: Duration = Duration::from_secs(5);

/// A row may be written this much later than now: clocks are corrected by small steps.
pub(crate) const WRITTEN: Duration = Duration::from_secs(2);

/// The longest pause that a CA is granted.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a claim that was brought back has left. Who holds a claim renews it well before, however long it is.
pub const CLAIM_LEFT: Duration = Duration::from_secs(30);

/// Nothing but the renewal of a certificate is due later: the last rung of the ladder with its
/// jitter, and a lapse.
pub(crate) const FARTHEST_DUE: Duration = Duration::from_secs(30 * 3600);

/// Of each kind, no more are counted for people.
pub(crate) const COUNTED: i64 = 1_000;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// What no clock in good order could have stored: every minute.
    Impossible,
    /// Also what it could have stored, but hardly just before the clock stepped: what waits for
    /// long is looked at once more.
    Suspicious,
}

impl Search {
    /// The longest claim that is let be. Whoever holds a shorter one renews it meanwhile; if nobody
    /// does any more, it ends soon enough.
    pub(crate) const fn claim(self) -> Duration {
        match self {
            Self::Impossible => Duration::from_secs(3600 + 60),
            Self::Suspicious => Duration::from_secs(60),
        }
    }

    /// How long a message may wait for its next try.
    pub(crate) const fn delivery(self) -> Duration {
        match self {
            Self::Impossible => Duration::from_secs(8 * 3600),
            Self::Suspicious => Duration::from_secs(60),
        }
    }

    /// From how far in the future on a budget is compared with the orders that were made.
    pub(crate) const fn budget(self) -> Duration {
        match self {
            Self::Impossible => Duration::from_secs(3 * 3600 + 1),
            Self::Suspicious => Duration::ZERO,
        }
    }
}

/// Brings moments back that a wrong clock left too far in the future.
#[async_trait]
pub trait Moments: Send + Sync {
    /// Brings them back, at most `limit` domains; gives how many it were. The cost is in proportion
    /// to what is wrong.
    async fn bring_back(&self, fence: Option<&Fence>, search: Search, limit: u32) -> Result<u64>;

    /// How many domains, accounts, messages, edges and replicas have moments that no clock in good
    /// order stores, up to a thousand each.
    async fn out_of_bounds(&self) -> Result<u64>;

    /// The clock jumped ahead, and what was stored before looks older than it is: for so long
    /// nothing is to be dropped by its age. None where the jump was taken back.
    async fn doubt_ages(&self, rest: Option<Duration>) -> Result<()>;

    /// Did some replica see such a jump, not long ago?
    async fn are_ages_doubtful(&self) -> Result<bool>;
}

/// A moment to wait for, as it can honestly be: no further away than when it was written, nor than
/// `longest`.
pub(crate) fn honest(
    until: Timestamp,
    written_at: Option<Timestamp>,
    now: Timestamp,
    longest: Duration,
) -> Timestamp {
    let ahead = written_at.map_or(Duration::ZERO, |at| at.since(now));
    until.minus(ahead).min(now.plus(longest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_a_clock_in_good_order_wrote_stays(now in 0_i64..2_000_000_000, ago in 0_u64..1_000_000, wait in 0_u64..600_000) {
            let now = Timestamp::from_seconds(now);
            let written = now.minus(Duration::from_secs(ago));
            let until = written.plus(Duration::from_secs(wait));
            prop_assert_eq!(honest(until, Some(written), now, LONGEST_PAUSE), until);
        }

        #[test]
        fn what_was_written_in_the_future_waits_as_long_as_it_was_meant_to(
            now in 0_i64..2_000_000_000, error in 1_u64..100_000_000, wait in 0_u64..600_000,
        ) {
            let now = Timestamp::from_seconds(now);
            let written = now.plus(Duration::from_secs(error));
            let until = written.plus(Duration::from_secs(wait));
            prop_assert_eq!(honest(until, Some(written), now, LONGEST_PAUSE), now.plus(Duration::from_secs(wait)));
        }

        #[test]
        fn nothing_is_put_off_and_nothing_beyond_its_bound(
            until in any::<i64>(), written in any::<Option<i64>>(), now in any::<i64>(), longest in 0_u64..1_000_000,
        ) {
            let (until, now) = (Timestamp::from_micros(until), Timestamp::from_micros(now));
            let longest = Duration::from_secs(longest);
            let told = honest(until, written.map(Timestamp::from_micros), now, longest);
            prop_assert!(told <= until && told <= now.plus(longest));
        }
    }
}
