//! An instant on the store's clock. Microseconds, because that is what PostgreSQL keeps: a value written
//! and read back compares equal.

use std::{fmt, time::Duration};

use ::time::{OffsetDateTime, format_description::well_known::Rfc3339};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment in UTC with microsecond precision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The text is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an RFC 3339 time; write it like 2026-01-31T12:00:00Z")]
pub struct TimestampError(String);

impl Timestamp {
    // The range of years 0000 to 9999, which is what RFC 3339 can say.
    const MIN: i64 = -62_167_219_200_000_000;
    const MAX: i64 = 253_402_300_799_999_999;

    /// From microseconds since the Unix epoch; what RFC 3339 cannot express is clamped.
    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(Self::MIN, Self::MAX))
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// From whole seconds since the Unix epoch, as certificates count.
    #[must_use]
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_micros(seconds.saturating_mul(1_000_000))
    }

    /// Parses RFC 3339.
    ///
    /// # Errors
    /// When the text is anything else.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        OffsetDateTime::parse(text, &Rfc3339)
            .map(Self::from)
            .map_err(|_| TimestampError(text.to_owned()))
    }

    /// How long after `earlier` this is; zero when it is not after.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This moment moved later, clamped at the end of the year 9999.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(micros(span)))
    }

    /// This moment moved earlier, clamped at the year 0.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self::from_micros(self.0.saturating_sub(micros(span)))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

impl From<OffsetDateTime> for Timestamp {
    fn from(value: OffsetDateTime) -> Self {
        Self::from_micros(i64::try_from(value.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for OffsetDateTime {
    fn from(value: Timestamp) -> Self {
        // The range is held by the constructor, so the fallback is never taken.
        Self::from_unix_timestamp_nanos(i128::from(value.0) * 1_000).unwrap_or(Self::UNIX_EPOCH)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, with six digits or none after the second, so that columns of it line up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from(*self);
        let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
        let (hour, minute, second, micros) =
            (at.hour(), at.minute(), at.second(), at.microsecond());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if micros > 0 {
            write!(f, ".{micros:06}")?;
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_and_back(micros in any::<i64>()) {
            let at = Timestamp::from_micros(micros);
            prop_assert_eq!(Timestamp::parse(&at.to_string()).unwrap(), at);
        }

        #[test]
        fn arithmetic_is_total(micros in any::<i64>(), span in any::<u64>()) {
            let at = Timestamp::from_micros(micros);
            let span = Duration::from_micros(span);
            prop_assert!(at.plus(span) >= at && at.minus(span) <= at);
        }
    }
}
