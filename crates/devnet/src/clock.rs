//! The one place that reads the wall clock.
//!
//! A CA stands outside the system under test: its certificates and windows are in true time, so the
//! store's clock is no help here.

use std::time::Duration;

use time::OffsetDateTime;

/// The time now, to the millisecond: what is written down must read back equal.
#[expect(clippy::disallowed_methods, reason = "a CA certifies true time; it is no replica")]
pub(crate) fn now() -> OffsetDateTime {
    let now = OffsetDateTime::now_utc();
    now.replace_millisecond(now.millisecond()).unwrap_or(now)
}

/// The whole seconds until a time, rounded up and at least one: a value for `Retry-After`.
pub(crate) fn seconds_until(at: OffsetDateTime) -> u64 {
    ceil_seconds(Duration::try_from(at - now()).unwrap_or_default())
}

/// A duration as whole seconds, rounded up and at least one.
pub(crate) fn ceil_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}
