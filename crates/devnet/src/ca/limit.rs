//! Rate limits, each a fault: in the words and with the waits of those who have them in production.
//!
//! Boulder's are from `ratelimits/limiter.go` and `wfe2/wfe.go`, where a limit on a name, on a set of names and on an account have
//! one problem type.

use std::time::Duration;

use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use time::format_description::well_known::Rfc3339;

use super::Ca;
use super::problem::{Kind, Problem};
use crate::clock;
use crate::faults::{FaultKind, Limit};

const HOUR: u64 = 3600;
const WEEK: u64 = 7 * 24 * HOUR;

/// Who may not order now. Renewals that say what they replace are exempt from all but a pause, as at Let's Encrypt.
pub(crate) fn check(
    ca: &Ca,
    account: &str,
    names: &[String],
    is_renewal: bool,
) -> Result<(), Problem> {
    let strikes = |kind| ca.faults.strikes_any(kind, names);
    let first = names.first().map_or("", String::as_str);
    if strikes(FaultKind::PausedName) {
        let url = ca.url("/sfe/v1/unpause?jwt=eyJhbGciOiJIUzI1NiJ9.e30.c2ln");
        let detail = format!(
            "Your account is temporarily prevented from requesting certificates for {first} and possibly others. Please visit: {url}"
        );
        return Err(Problem::new(Kind::RateLimited, detail));
    }
    if strikes(FaultKind::UnknownLimit) {
        return Err(Problem::new(
            Kind::RateLimited,
            "the moon is in the wrong phase for this order",
        ));
    }
    if is_renewal {
        return Ok(());
    }
    if strikes(FaultKind::FailedAuthorizations) {
        let what = format!("failed authorizations (5) for {first:?}");
        let page = "authorization-failures-per-identifier-per-account";
        return Err(limited(&what, HOUR, HOUR / 5, page));
    }
    if strikes(FaultKind::ExactSetLimit) {
        let what = "certificates (5) already issued for this exact set of identifiers";
        return Err(limited(what, WEEK, WEEK / 5, "new-certificates-per-exact-set-of-identifiers"));
    }
    let wide: Vec<String> = names.iter().flat_map(|name| upwards(name)).collect();
    if ca.faults.strikes_any(FaultKind::RegisteredDomainLimit, &wide) {
        let what = format!("certificates (50) already issued for {:?}", registered(first));
        return Err(limited(&what, WEEK, WEEK / 50, "new-certificates-per-registered-domain"));
    }
    let Some(Limit { orders, seconds, wait }) = ca.faults.over_order_limit(account) else {
        return Ok(());
    };
    let what = format!("new orders ({orders}) from this account");
    Err(limited(&what, seconds.into(), clock::ceil_seconds(wait), "new-orders-per-account"))
}

/// A challenge for which there are no more requests, in Google's words, which are without Retry-After.
pub(crate) fn check_challenge(ca: &Ca, name: &str) -> Result<(), Problem> {
    match ca.faults.strikes_name(FaultKind::ChallengeLimit, name) {
        true => Err(Problem::new(
            Kind::RateLimited,
            "'default@gcp.api.pki.goog' is over quota (30 requests in 60 seconds) for the given ACME resource: challenge. Try again in 1.476542291s.",
        )),
        false => Ok(()),
    }
}

/// What nginx answers whose address asks too often.
pub(crate) fn page() -> Response {
    let page = "<html>\r\n<head><title>429 Too Many Requests</title></head>\r\n<body>\r\n<center><h1>429 Too Many Requests</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";
    (StatusCode::TOO_MANY_REQUESTS, Html(page)).into_response()
}

fn limited(what: &str, period: u64, wait: u64, page: &str) -> Problem {
    let after = clock::now() + Duration::from_secs(wait);
    let after = after.replace_millisecond(0).unwrap_or(after).format(&Rfc3339).unwrap_or_default();
    let after = after.replace('T', " ").replace('Z', " UTC");
    let detail = format!(
        "too many {what} in the last {}, retry after {after}: see https://letsencrypt.org/docs/rate-limits/#{page}",
        period_text(period)
    );
    Problem::new(Kind::RateLimited, detail).with_retry_after(wait)
}

/// As Go writes a duration of whole seconds.
fn period_text(seconds: u64) -> String {
    match (seconds / HOUR, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, m, s) => format!("{h}h{m}m{s}s"),
    }
}

/// A name and all that it is below.
fn upwards(name: &str) -> impl Iterator<Item = String> {
    let below = name.match_indices('.').filter_map(|(at, _)| name.get(at + 1..));
    std::iter::once(name).chain(below).map(str::to_owned)
}

/// The names that are certified here end in a suffix of one label.
fn registered(name: &str) -> &str {
    let dot = name.rmatch_indices('.').nth(1);
    dot.and_then(|(at, _)| name.get(at + 1..)).unwrap_or(name)
}
