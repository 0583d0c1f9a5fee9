//! Bugs that others shipped, to be switched on by tests alone: a harness that has never failed proves nothing.
//!
//! Outside of this crate's own tests [`Bugs`] has no size, and [`Bugs::has`] is `false` at compile time.

/// One seeded bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look for bugs by switching them on"))]
pub(crate) enum Bug {
    DeadlineArmedAtReply,
    RenewByNameOnly,
    CachedFlag,
    RowDeletedOnRelease,
    StealOnEqualExpiry,
    ReleaseBeforeLocalLoss,
    ErrorKeepsLeadership,
    RetryAsLongAsTheWindow,
    GuardWithoutExpiry,
    AbandonedRequestActs,
    SelfNotRecognised,
    TermKept,
    ReservationIgnored,
    UnchangedWithoutVersion,
    FailbackWithoutCooldown,
    NoPolling,
    TermOfOwnRowReused,
    BeaconLossIgnored,
    BeaconLossForgotten,
    BeaconGoneByRestart,
    BeaconNeverNoted,
    SetBackUnnoticed,
    ServedAgainDated,
}

/// The bug switched on, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bugs {
    #[cfg(test)]
    pub(crate) seeded: Option<Bug>,
}

impl Bugs {
    #[inline]
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing to look at in production"))]
    pub(crate) fn has(self, bug: Bug) -> bool {
        #[cfg(test)]
        return self.seeded == Some(bug);
        #[cfg(not(test))]
        {
            let _ = bug;
            false
        }
    }
}
