//! `Retry-After`: seconds, or a date.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// A CA that asks for more has made a mistake; it can ask again.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long the answer asks to wait, if it does.
pub(super) fn read(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // What does not fit in 64 bits is "very long" all the same.
        text.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        let until = httpdate::parse_http_date(text).ok()?;
        until.duration_since(now(headers)).unwrap_or(Duration::ZERO)
    };
    Some(asked.min(LONGEST))
}

/// The CA's clock, because the date is of it; ours only where it does not tell.
fn now(headers: &HeaderMap) -> SystemTime {
    let told = headers.get(DATE).and_then(|date| date.to_str().ok());
    told.and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or_else(our_clock)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a date on the wire can only be compared with a wall clock"
)]
fn our_clock() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(retry_after: &str, date: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(retry_after).unwrap());
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_str(date).unwrap());
        }
        headers
    }

    #[test]
    fn seconds_and_dates() {
        let date = Some("Fri, 31 Dec 1999 23:59:00 GMT");
        let cases = [
            ("120", None, Some(120)),
            ("0", None, Some(0)),
            ("99999999999999999999999", None, Some(7 * 24 * 3600)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", date, Some(59)),
            ("Fri, 31 Dec 1999 23:00:00 GMT", date, Some(0)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None, Some(0)),
            ("-5", None, None),
            ("1.5", None, None),
            ("soon", date, None),
            ("", date, None),
        ];
        for (text, date, expected) in cases {
            let read = read(&headers(text, date));
            assert_eq!(read, expected.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn a_date_without_the_cas_clock_is_compared_with_ours() {
        let text = httpdate::fmt_http_date(our_clock() + Duration::from_secs(100));
        let wait = read(&headers(&text, None)).unwrap();
        assert!((98..=100).contains(&wait.as_secs()), "{wait:?}");
    }
}
