//! What a store remembers of a lease, and the store's time.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::{Holder, Incarnation, Name, Priority, Term};

/// A time by the store's own clock, in microseconds since 1970. It is a wall clock and may step.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoreTime(i64);

impl StoreTime {
    /// The time so many microseconds after 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default())
    }

    /// This time and so much more.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for StoreTime {
    /// `2026-11-15T19:53:05.123Z`, without a calendar library (days to a date: Hinnant's algorithm).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let days = days + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let date = day - (153 * month + 2) / 5 + 1;
        let (year, month) = (year + era * 400 + i64::from(month >= 10), (month + 2) % 12 + 1);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let millis = micros / 1_000;
        write!(f, "{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

impl fmt::Debug for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Who owns a lease: the name people read and the incarnation that is compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The name people read.
    pub holder: Holder,
    /// The process that owns it.
    pub incarnation: Incarnation,
}

/// One lease as the store remembers it. A row is made at the first acquisition and kept for ever: the term must survive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Row {
    /// Who owns it; none after a release.
    pub owner: Option<Owner>,
    /// The fencing token of the owner, or of the last one.
    pub term: Term,
    /// Rises with everything the owner does in this term, and with a renewal to its own time in microseconds. It is how a
    /// contender sees life, and dates it, without trusting the store's clock.
    pub beat: i64,
    /// How long the owner asked for; after a release, how long it is reserved.
    pub ttl: Duration,
    /// Until when it is owned or reserved.
    pub expires_at: StoreTime,
    /// When this owner came, or the last one went.
    pub since: StoreTime,
    /// The priority of the owner, or of the last one.
    pub priority: Priority,
    /// Owned: someone asked the owner to step down.
    pub step_down: bool,
    /// Owned: in whose favour it is asked to step down. Released: for whom it is reserved.
    pub successor: Option<Holder>,
    /// Whether the owner keeps a beacon: a session whose end counts as its death.
    pub beacon: bool,
}

impl Row {
    /// What a contender must find unchanged in order to take the row without trusting the store's clock.
    pub fn version(&self) -> Version {
        Version {
            incarnation: self.owner.as_ref().map(|owner| owner.incarnation),
            term: self.term,
            beat: self.beat,
        }
    }

    /// Whether this process owns it.
    pub fn is_of(&self, incarnation: Incarnation) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.incarnation == incarnation)
    }
}

/// One state of a row: every act of an owner makes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Who owned it.
    pub incarnation: Option<Incarnation>,
    /// In which term.
    pub term: Term,
    /// After which act.
    pub beat: i64,
}

/// Why a lease changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Change {
    /// There was no such lease before.
    Created,
    /// It was free after a release.
    Released,
    /// It was reserved for whoever took it.
    Reserved,
    /// The store's clock had passed its expiry.
    Expired,
    /// Its owner gave no sign of life for a whole lease, whatever the store's clock says.
    Unchanged,
    /// Its owner took it again, after it had given it up locally.
    Reacquired,
    /// Its owner's beacon was gone.
    BeaconGone,
    /// Its owner let go of it.
    Departed,
    /// Its owner let go of it for a successor.
    SteppedDown,
    /// An operator took it away.
    Forced,
}

impl Change {
    /// The word for it in stores and interfaces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Released => "released",
            Self::Reserved => "reserved",
            Self::Expired => "expired",
            Self::Unchanged => "unchanged",
            Self::Reacquired => "reacquired",
            Self::BeaconGone => "beacon-gone",
            Self::Departed => "departed",
            Self::SteppedDown => "stepped-down",
            Self::Forced => "forced",
        }
    }

    /// The change of that word; an unknown word, from a newer release, is none.
    pub fn parse(word: &str) -> Option<Self> {
        const ALL: [Change; 10] = [
            Change::Created,
            Change::Released,
            Change::Reserved,
            Change::Expired,
            Change::Unchanged,
            Change::Reacquired,
            Change::BeaconGone,
            Change::Departed,
            Change::SteppedDown,
            Change::Forced,
        ];
        ALL.into_iter().find(|change| change.as_str() == word)
    }
}

/// One change of owner, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Rises with every entry of one store.
    pub id: i64,
    /// The lease.
    pub name: Name,
    /// When, by the store's clock.
    pub at: StoreTime,
    /// Why.
    pub change: Change,
    /// The term from then on.
    pub term: Term,
    /// Who held it before.
    pub from: Option<Holder>,
    /// Who holds it from then on.
    pub to: Option<Holder>,
    /// Who forced it, and why; otherwise none.
    pub note: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_times_read_as_dates() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_794_772_385_123_456, "2026-11-15T19:53:05.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(StoreTime::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn words_of_changes_are_read_back() {
        for change in [Change::Created, Change::BeaconGone, Change::Forced] {
            assert_eq!(Change::parse(change.as_str()), Some(change));
        }
        assert_eq!(Change::parse("from-the-future"), None);
    }
}
