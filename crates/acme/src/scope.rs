//! What a rate limit is about. ACME has one type for all of them, so the words decide: a table of those that are known.
//!
//! What is not in the table is about the name that was asked for; whether it is about more, only a second name can tell. So an
//! unknown text never stops the account.

use std::time::Duration;

use holdfast_gateway::point::Point;
use holdfast_model::WaitScope;

/// Words in lower case, all of which a text must contain, and what it is about then. The first line that fits decides.
type Line = (&'static [&'static str], WaitScope);

const KNOWN: &[Line] = &[
    // Boulder, wfe2/wfe.go: the only limit without a Retry-After.
    (&["temporarily prevented from requesting certificates"], WaitScope::PausedName),
    // Boulder, ratelimits/limiter.go; and before 2024.
    (&["too many failed authorizations"], WaitScope::Name),
    (&["too many certificates", "exact set of"], WaitScope::ExactSet),
    (&["too many certificates", "already issued for"], WaitScope::RegisteredDomain),
    (&["too many new orders"], WaitScope::Account),
    (&["too many currently pending authorizations"], WaitScope::Account),
    (&["too many new registrations"], WaitScope::Server),
    (&["too many registrations"], WaitScope::Server),
    // What stands before Boulder, with 429 or 503.
    (&["service busy; retry later"], WaitScope::Server),
    (&["rate limit for '/"], WaitScope::Server),
    // Google Trust Services: its quotas are per account and resource.
    (&["is over quota", "for the given acme resource"], WaitScope::Account),
];

/// More of a text is not read.
const READ: usize = 2_000;

/// What a refusal that asks to wait is about: by its words, then by what was asked and how it was answered.
pub(crate) fn scope(at: Point, status: u16, kind: &str, detail: &str) -> WaitScope {
    if let Some(known) = known(detail) {
        return known;
    }
    let is_of_no_name = !is_about_a_name(at);
    // Without a problem's type it was not the CA that answered, but a proxy that counts requests per address (ZeroSSL's nginx).
    let is_of_a_proxy = status == 429 && kind.is_empty();
    match status {
        500.. => WaitScope::Server,
        _ if is_of_no_name || is_of_a_proxy => WaitScope::Server,
        _ => WaitScope::Unknown,
    }
}

fn known(detail: &str) -> Option<WaitScope> {
    let words: String = detail.chars().take(READ).flat_map(char::to_lowercase).collect();
    let fits = |(all, _): &&Line| all.iter().all(|part| words.contains(part));
    KNOWN.iter().find(fits).map(|(_, scope)| *scope)
}

fn is_about_a_name(at: Point) -> bool {
    let about = [
        Point::ACME_NEW_ORDER,
        Point::ACME_ORDER,
        Point::ACME_AUTHORIZATION,
        Point::ACME_CHALLENGE,
        Point::ACME_FINALIZE,
        Point::ACME_CERTIFICATE,
    ];
    about.contains(&at)
}

/// How long a text asks to wait that came without Retry-After: `Try again in 12.476542291s.`
pub(crate) fn wait_in(detail: &str) -> Option<Duration> {
    let (_, rest) = detail.split_once("Try again in ")?;
    let number = rest.split_once('s')?.0;
    let seconds: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(seconds.ceil()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEE: &str = ": see https://letsencrypt.org/docs/rate-limits/#";

    #[test]
    fn the_texts_of_the_cas_are_known() {
        use WaitScope as S;
        let cases = [
            (
                "too many new orders (300) from this account in the last 3h0m0s, retry after 2026-01-18 21:15:30 UTC",
                S::Account,
            ),
            (
                "too many failed authorizations (5) for \"bad.example.com\" in the last 1h0m0s, retry after 2026-01-18 21:15:30 UTC",
                S::Name,
            ),
            (
                "too many certificates (50) already issued for \"example.com\" in the last 168h0m0s, retry after 2026-01-18 21:15:30 UTC",
                S::RegisteredDomain,
            ),
            (
                "too many certificates (5) already issued for this exact set of identifiers in the last 168h0m0s, retry after 2026-01-18 21:15:30 UTC",
                S::ExactSet,
            ),
            (
                "too many certificates (5) already issued for this exact set of domains in the last 168h0m0s, retry after 2024-01-18 21:15:30 UTC",
                S::ExactSet,
            ),
            (
                "Your account is temporarily prevented from requesting certificates for bad.example.com and possibly others. Please visit: https://portal.letsencrypt.org/sfe/v1/unpause?jwt=a.b.c",
                S::PausedName,
            ),
            (
                "too many new registrations (10) from this IP address in the last 3h0m0s, retry after 2026-01-18 21:15:30 UTC",
                S::Server,
            ),
            (
                "too many new registrations (500) from this /48 subnet of IPv6 addresses in the last 3h0m0s, retry after 2026-01-18 21:15:30 UTC",
                S::Server,
            ),
            ("Service busy; retry later.", S::Server),
            ("Rate limit for '/acme' reached", S::Server),
            ("Error creating new order :: too many failed authorizations recently", S::Name),
            (
                "Error creating new order :: too many certificates already issued for exact set of domains: example.com",
                S::ExactSet,
            ),
            (
                "Error creating new order :: too many certificates already issued for: example.com",
                S::RegisteredDomain,
            ),
            ("Error creating new order :: too many new orders recently", S::Account),
            ("Error creating new authz :: too many currently pending authorizations", S::Account),
            (
                "'default@gcp.api.pki.goog' is over quota (30 requests in 60 seconds) for the given ACME resource: challenge. Try again in 12.476542291s.",
                S::Account,
            ),
        ];
        for (text, expected) in cases {
            for text in [text.to_owned(), format!("{text}{SEE}x"), text.to_uppercase()] {
                let found = scope(Point::ACME_NEW_ORDER, 429, "rateLimited", &text);
                assert_eq!(found, expected, "{text}");
            }
        }
    }

    #[test]
    fn an_unknown_text_is_about_the_name_and_a_proxys_about_this_replica() {
        let order = |status, kind, text| scope(Point::ACME_NEW_ORDER, status, kind, text);
        assert_eq!(order(429, "rateLimited", "not today"), WaitScope::Unknown);
        assert_eq!(order(429, "malformed", "no orders now"), WaitScope::Unknown);
        assert_eq!(order(400, "malformed", "later"), WaitScope::Unknown);
        let html = "Too Many Requests, without a problem document";
        assert_eq!(order(429, "", html), WaitScope::Server);
        assert_eq!(order(503, "serverInternal", "down"), WaitScope::Server);
        assert_eq!(order(500, "", ""), WaitScope::Server);
        for at in [Point::ACME_NONCE, Point::ACME_NEW_ACCOUNT, Point::ACME_DIRECTORY] {
            assert_eq!(scope(at, 429, "rateLimited", "not today"), WaitScope::Server);
        }
    }

    #[test]
    fn a_text_may_say_how_long() {
        let google = "'a@b' is over quota (30 requests in 60 seconds) for the given ACME resource: challenge. Try again in 12.476542291s.";
        assert_eq!(wait_in(google), Some(Duration::from_secs(13)));
        for nonsense in
            ["", "Try again in ", "Try again in -5s", "Try again in 1e999s", "Try again in NaNs"]
        {
            assert_eq!(wait_in(nonsense), None, "{nonsense}");
        }
    }

    proptest! {
        /// Whatever is sent: no panic, and the account stops only for words that are in the table.
        #[test]
        fn garbage_never_stops_the_account(
            status in 400_u16..600,
            kind in prop_oneof![Just("rateLimited".to_owned()), any::<String>()],
            detail in prop_oneof![any::<String>(), "(too many|new|orders|quota|account|exact set of| ){0,6}"],
        ) {
            let found = scope(Point::ACME_NEW_ORDER, status, &kind, &detail);
            let words = detail.to_lowercase();
            let is_known = words.contains("too many new orders");
            prop_assert!(found != WaitScope::Account || is_known, "{detail}");
            prop_assert_eq!(found, scope(Point::ACME_NEW_ORDER, status, &kind, &detail));
            if let Some(wait) = wait_in(&detail) {
                prop_assert!(found.bounded(Some(wait)) <= Duration::from_secs(7 * 24 * 3600));
            }
        }

        /// A name that reads like another limit's words is still about that name: names are quoted, and have no spaces.
        #[test]
        fn a_name_cannot_widen_its_scope(name in "[a-z0-9.-]{1,60}") {
            let text = format!("too many failed authorizations (5) for \"{name}\" in the last 1h0m0s, retry after 2026-01-18 21:15:30 UTC");
            prop_assert_eq!(scope(Point::ACME_NEW_ORDER, 429, "rateLimited", &text), WaitScope::Name);
        }
    }
}
