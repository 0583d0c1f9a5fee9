//! The wall clock, for showing people how long ago something was. Nothing is decided by it.

use std::time::{Duration, SystemTime};

use holdfast_model::Timestamp;

/// Now, on this machine.
#[expect(
    clippy::disallowed_methods,
    reason = "shown to people, compared with nothing that matters"
)]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}

/// `in 12 s`, `3 min ago`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", span(at.since(now)))
    } else {
        format!("{} ago", span(now.since(at)))
    }
}

/// A span in the two units that matter.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..10 => format!("{:.1} s", span.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let told = |millis| span(Duration::from_millis(millis));
        assert_eq!(told(7), "7 ms");
        assert_eq!(told(1_250), "1.2 s");
        assert_eq!(told(61_000), "61 s");
        assert_eq!(told(600_000), "10 min");
        assert_eq!(told(90_000_000), "25 h");
        assert_eq!(told(90 * 86_400_000), "90 days");
        let (then, now) = (Timestamp::from_seconds(10), Timestamp::from_seconds(22));
        assert_eq!(
            (relative(then, now), relative(now, then)),
            ("12 s ago".into(), "in 12 s".into())
        );
    }
}
