//! What a follower has itself seen of another's row: since when, and when its owner lived at the latest.
//!
//! A renewal carries the owner's own time. Two of them are as far apart as that says, give or take drift, whenever they
//! were seen: so one look in a whole lease is enough to know how old the last sign of life is.

use std::time::Duration;

use crate::clock::Moment;
use crate::options::Timing;
use crate::protocol::bug::{Bug, Bugs};
use crate::row::{Row, StoreTime, Version};

/// What the owner's time is told in, in microseconds: a beat between two of these tells no time. A row that is granted again, or
/// renewed by a request that comes late or is served twice, only counts on.
const GRAIN: i64 = 1_000;

/// The beat of a renewal sent now.
pub(crate) fn beat(now: Moment) -> i64 {
    let micros = i64::try_from(now.as_nanos() / 1_000).unwrap_or(i64::MAX);
    micros - micros % GRAIN
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sight {
    pub(crate) version: Version,
    /// Since when it is owned, by the store's clock.
    owned_since: StoreTime,
    /// When this version was first seen.
    since: Moment,
    /// When this term was first seen.
    pub(crate) term_since: Moment,
    /// When the request that made this version had been sent, at the latest.
    sent_by: Moment,
}

impl Sight {
    /// What is known now that the row was seen so.
    pub(crate) fn of(
        before: Option<Self>,
        row: &Row,
        (timing, bugs): (&Timing, Bugs),
        now: Moment,
    ) -> Self {
        let (version, owned_since) = (row.version(), row.since);
        let new = Self { version, owned_since, since: now, term_since: now, sent_by: now };
        match before {
            // A store that lost the row may show its owner in the same term again, at its first act: that is life too.
            Some(seen) if seen.version == version && seen.owned_since == owned_since => seen,
            Some(seen) if seen.version.term == row.term => {
                let sent_by = seen.dated(version, timing, bugs).map_or(now, |sent| sent.min(now));
                Self { term_since: seen.term_since, sent_by, ..new }
            }
            _ => new,
        }
    }

    /// When a later version of the same owner was sent at the latest, by the owner's own clock.
    fn dated(&self, later: Version, timing: &Timing, bugs: Bugs) -> Option<Moment> {
        let same = later.incarnation.is_some() && later.incarnation == self.version.incarnation;
        // The earlier one may have been made later than its beat says, never sooner.
        let told = later.beat % GRAIN == 0 || bugs.has(Bug::ServedAgainDated);
        let apart = u64::try_from((later.beat + GRAIN).saturating_sub(self.version.beat)).ok()?;
        let apart = Duration::from_micros(apart);
        (same && told).then(|| self.sent_by + apart + timing.drift_of(apart))
    }

    /// Since when the row has shown no life: as long as it was seen to; or, where the store's clock is known to have been set
    /// back, by the owner's own clock.
    pub(crate) fn still_since(&self, set_back: bool) -> Moment {
        if set_back { self.sent_by } else { self.since }
    }

    /// Whether its owner was never yet seen to act: how old the last sign of its life is cannot be told.
    pub(crate) fn is_first(&self) -> bool {
        self.since == self.term_since
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::identity::{Holder, Incarnation, Priority, Term};
    use crate::options::Options;
    use crate::row::Owner;

    fn row(beat: i64) -> Row {
        let incarnation = Incarnation::from_uuid(Uuid::from_u128(7));
        Row {
            owner: Some(Owner { holder: Holder::new("ann").unwrap(), incarnation }),
            term: Term::new(1),
            beat,
            ttl: Duration::from_secs(30),
            expires_at: StoreTime::from_micros(0),
            since: StoreTime::from_micros(0),
            priority: Priority(0),
            step_down: false,
            successor: None,
            beacon: false,
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    /// Looks at rows of these beats, in seconds and in microseconds, at these moments: since when the last shows no life.
    fn still_since(looks: &[(u64, i64)]) -> Moment {
        let timing = Options::default().timing().unwrap();
        let see = |before, &(seconds, beat): &(u64, i64)| {
            Some(Sight::of(before, &row(beat), (&timing, Bugs::default()), at(seconds)))
        };
        looks.iter().fold(None, see).unwrap().still_since(true)
    }

    #[test]
    fn a_renewal_is_dated_by_its_owners_clock() {
        let second = 1_000_000;
        // Seen at once at 100 by this clock, 5 by its owner's; then not before 130, though it came ten seconds later.
        let dated = still_since(&[(100, 5 * second), (130, 15 * second)]);
        let give_or_take = Duration::from_micros(1_000 + 100_010);
        assert_eq!(dated, at(110) + give_or_take);
    }

    #[test]
    fn what_cannot_be_dated_is_as_old_as_it_was_seen() {
        let second = 1_000_000;
        assert_eq!(still_since(&[(100, 0), (130, 90 * second)]), at(130), "the first act");
        assert_eq!(still_since(&[(100, second), (130, second + 1)]), at(130), "served again");
        let unseen = still_since(&[(100, second), (130, 15 * second + 1)]);
        assert_eq!(unseen, at(130), "served again after a renewal that was not seen");
        assert_eq!(still_since(&[(100, second), (130, 90 * second)]), at(130), "a clock that ran");
    }
}
