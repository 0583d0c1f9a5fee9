//! Lanes: what is due is claimed lane by lane, so that a flood in one of them keeps no other waiting. And turns: in which order
//! those with and without a certificate are given orders.
//!
//! A lane follows from the row alone; nobody writes it. So the release before, which knows none, works beside this one.

use holdfast_model::{Domain, Note, QueuePlace, State, Timestamp};

/// What a domain is due for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Its order is open at the CA, whose patience is short. They are few: no more than may be in flight.
    Order,
    /// On its way in, or tried again because a person asked.
    New,
    /// A certificate is on its way to the edges.
    Edge,
    /// It has a certificate, and is looked after.
    Renewal,
    /// It failed and is looked at again, or it is being removed.
    Again,
    /// Its DNS said nothing at the last look, and the next one takes all the time that it may.
    Silent,
    /// It is Active, and the CA is asked when to renew its certificate.
    Look,
}

/// How many lanes there are.
const LANES: usize = 7;

/// The lane of a row, as both databases understand it and as the index has it, to the letter.
macro_rules! lane {
    () => {
        "CASE WHEN removing_since IS NOT NULL THEN 4 WHEN order_id IS NOT NULL THEN 0
              WHEN state IN ('CertificateDownloaded', 'CertificateDeploying', 'CertificateDeployed', 'CertificateDeploymentFailed') THEN 2
              WHEN state = 'Initial' THEN 1 WHEN state = 'Active' AND wanted IS NULL THEN 6
              WHEN state IN ('DnsVerifying', 'DnsVerificationFailed') AND wanted IS NULL
                  AND error_code IN ('dns-silent', 'dns-timeout', 'dns-resolver-unreachable') THEN 5
              WHEN certificate_id IS NOT NULL THEN 3 WHEN wanted IS NOT NULL THEN 1
              WHEN state IN ('DnsVerificationFailed', 'AcmeOrderFailed', 'AcmeChallengeFailed', 'CertificateDownloadFailed', 'Failed') THEN 4
              ELSE 1 END"
    };
}
pub(crate) use lane;

impl Lane {
    /// All of them.
    pub const ALL: [Self; LANES] =
        [Self::Order, Self::New, Self::Edge, Self::Renewal, Self::Again, Self::Silent, Self::Look];

    /// The lane of a domain.
    #[must_use]
    pub fn of(domain: &Domain) -> Self {
        use State::{
            Active, CertificateDeployed, CertificateDeploying, CertificateDeploymentFailed,
            CertificateDownloaded, DnsVerificationFailed, DnsVerifying, Initial,
        };
        let silent = || domain.last_error.as_ref().is_some_and(Note::is_silence_of_dns);
        match domain.state {
            _ if domain.removing_since.is_some() => Self::Again,
            _ if domain.order_open => Self::Order,
            CertificateDownloaded
            | CertificateDeploying
            | CertificateDeployed
            | CertificateDeploymentFailed => Self::Edge,
            Initial => Self::New,
            Active if domain.wanted.is_none() => Self::Look,
            DnsVerifying | DnsVerificationFailed if domain.wanted.is_none() && silent() => {
                Self::Silent
            }
            _ if domain.certificate.is_some() => Self::Renewal,
            _ if domain.wanted.is_some() => Self::New,
            state if state.is_failure() => Self::Again,
            _ => Self::New,
        }
    }

    pub(crate) const fn number(self) -> i32 {
        match self {
            Self::Order => 0,
            Self::New => 1,
            Self::Edge => 2,
            Self::Renewal => 3,
            Self::Again => 4,
            Self::Silent => 5,
            Self::Look => 6,
        }
    }
}

/// How many may be claimed: so many of each lane, and so many more of any, which who comes first takes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The lanes in the order in which they are served, each with what is kept for it alone.
    pub lanes: [(Lane, u32); LANES],
    /// For any of them, except those that stay in what is kept for them.
    pub shared: u32,
    /// Which lanes, by their place in [`Lane::ALL`], take nothing of what is shared.
    pub apart: [bool; LANES],
    /// What was due before this in a lane, by its place in [`Lane::ALL`], need not be looked for; none: all of it is.
    pub since: [Option<Timestamp>; LANES],
}

impl Room {
    /// Nothing is kept for any lane.
    #[must_use]
    pub fn shared(room: u32) -> Self {
        Self {
            lanes: Lane::ALL.map(|lane| (lane, 0)),
            shared: room,
            apart: [false; LANES],
            since: [None; LANES],
        }
    }

    /// Where the look begins in the lanes, in the order in which they are served.
    pub(crate) fn begins(&self) -> [Option<Timestamp>; LANES] {
        self.lanes.map(|(lane, _)| self.since.get(lane as usize).copied().flatten())
    }

    /// What each lane gets of what is shared, in the order in which they are served: all that is left of it, or nothing.
    pub(crate) fn shares(&self) -> [u32; LANES] {
        self.lanes.map(|(lane, _)| u32::from(!self.is_apart(lane)))
    }

    fn is_apart(&self, lane: Lane) -> bool {
        self.apart.get(lane as usize).copied().unwrap_or_default()
    }

    /// Of which lanes, by their place in [`Lane::ALL`], may there be more than these, which were taken?
    #[must_use]
    pub fn is_used_up(&self, taken: &[Lane]) -> [bool; LANES] {
        let of = |lane: Lane| {
            let count = taken.iter().filter(|one| **one == lane).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let beyond = |(lane, own): &(Lane, u32)| of(*lane).saturating_sub(*own);
        let shared = self.lanes.iter().map(beyond).fold(0, u32::saturating_add) >= self.shared;
        Lane::ALL.map(|lane| {
            let own = self.lanes.iter().find(|(one, _)| *one == lane).map_or(0, |(_, own)| *own);
            if self.is_apart(lane) { of(lane) >= own } else { shared }
        })
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.lanes.iter().fold(self.shared, |sum, (_, own)| sum.saturating_add(*own))
    }
}

/// One order in so many is given to who has no certificate yet, even while renewals wait.
const TURNS: i64 = 4;

/// How many of the next orders are first offered to who has no certificate yet: of every four, the last.
pub(crate) fn turns_of_new(turn: i64, orders: u32) -> u32 {
    let before = |turn: i64| turn.div_euclid(TURNS);
    u32::try_from(before(turn.saturating_add(i64::from(orders))) - before(turn)).unwrap_or(0)
}

/// The last place that is told as a number.
const PLACES: u64 = 1_000;

/// How many of a kind must be counted to know a place up to [`PLACES`]: those ahead are no more than that, of either kind.
pub(crate) const COUNTED_PLACES: i64 = 1_001;

/// About how many orders it takes until who has this place in its own lane gets one, while so many wait in the other.
pub(crate) fn place(own: u64, other: u64, renews: bool) -> QueuePlace {
    let each = TURNS.unsigned_abs() - 1;
    let ahead = if renews { own.saturating_sub(1) / each } else { own.saturating_mul(each) };
    match own.saturating_add(ahead.min(other)) {
        place @ ..=PLACES => QueuePlace::At(place),
        _ => QueuePlace::Beyond(PLACES),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::migration::{Migration, POSTGRES, SQLITE};

    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The planner compares texts, not meanings.
    #[test]
    fn the_indexes_are_of_this_very_lane() {
        let has = |step: &Migration| words(step.sql).contains(&words(lane!()));
        assert!(POSTGRES.iter().any(has) && SQLITE.iter().any(has));
    }

    /// Counting further would tell no other place.
    #[test]
    fn no_more_is_counted_than_is_told() {
        let most = COUNTED_PLACES.unsigned_abs();
        for (own, other) in [(1, 5), (250, 750), (251, 749), (999, 0), (1_000, 1), (1_001, 9)] {
            for (own, other) in [(own, other), (own, other + most), (own + most, other)] {
                for renews in [true, false] {
                    let counted = place(own.min(most), other.min(most), renews);
                    assert_eq!(counted, place(own, other, renews), "{own} {other} {renews}");
                }
            }
        }
        assert_eq!(place(1_000, 0, false), QueuePlace::At(1_000));
        assert_eq!(place(1_001, 0, false), QueuePlace::Beyond(1_000));
    }

    /// A lane that stays in its own is full by itself, and says nothing of the others.
    #[test]
    fn what_is_used_up_is_told_by_lane() {
        let mut room = Room::shared(3);
        room.apart[Lane::Silent as usize] = true;
        room.lanes[Lane::Silent as usize].1 = 2;
        let used_up = |taken: &[Lane]| {
            Lane::ALL.into_iter().zip(room.is_used_up(taken)).filter(|(_, used)| *used).count()
        };
        assert_eq!(used_up(&[Lane::New, Lane::Silent]), 0);
        assert_eq!(used_up(&[Lane::New, Lane::Silent, Lane::Silent]), 1);
        assert_eq!(used_up(&[Lane::New, Lane::Edge, Lane::New, Lane::Silent]), 6);
    }

    #[test]
    fn one_in_four_is_for_the_new() {
        let turns: Vec<_> = (0..8).map(|turn| turns_of_new(turn, 1)).collect();
        assert_eq!(turns, [0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(turns_of_new(0, 64), 16);
    }

    proptest! {
        #[test]
        fn turns_do_not_depend_on_how_they_are_taken(start in 0_i64..1_000, parts in prop::collection::vec(0_u32..20, 0..20)) {
            let (mut turn, mut taken) = (start, 0);
            for part in &parts {
                taken += turns_of_new(turn, *part);
                turn += i64::from(*part);
            }
            prop_assert_eq!(taken, turns_of_new(start, parts.iter().sum()));
        }

        /// Whoever is told a place gets its order there, if nobody joins or leaves.
        #[test]
        fn places_are_those_at_which_orders_are_given(renewing in 0_u32..40, new in 0_u32..40) {
            let (mut left, mut turn, mut given) = ((renewing, new), 0, Vec::new());
            while left.0 + left.1 > 0 {
                let renews = left.0 > 0 && (turns_of_new(turn, 1) == 0 || left.1 == 0);
                if renews { left.0 -= 1 } else { left.1 -= 1 }
                given.push(renews);
                turn += 1;
            }
            for renews in [true, false] {
                let places = given.iter().enumerate().filter(|(_, one)| **one == renews);
                for (own, (at, _)) in places.enumerate() {
                    let other = if renews { new } else { renewing };
                    prop_assert_eq!(place(own as u64 + 1, other.into(), renews), QueuePlace::At(at as u64 + 1));
                }
            }
        }
    }
}
