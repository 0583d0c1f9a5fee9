//! The edge's own page, for when nothing stands behind it: which name, which certificate.

use holdfast_model::Timestamp;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use http::{Method, Request, StatusCode};

use super::answer::{Answer, and, text, with_type};
use super::served::Served;

const PAGE: &str = include_str!("page.html");

pub(super) fn answer<B>(request: &Request<B>, served: &Served) -> Answer {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here");
        return and(refused, ALLOW, "GET, HEAD");
    }
    let status = if request.uri().path() == "/" { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let answer = with_type(status, "text/html; charset=utf-8", render(served));
    let answer = and(answer, CACHE_CONTROL, "no-store");
    and(
        answer,
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )
}

fn render(served: &Served) -> String {
    let summary = &served.summary;
    let values = [
        ("{name}", served.name.to_unicode()),
        ("{issuer}", summary.issuer.clone()),
        ("{from}", summary.not_before.to_string()),
        ("{until}", summary.not_after.to_string()),
        ("{from shown}", shown(summary.not_before)),
        ("{until shown}", shown(summary.not_after)),
        ("{serial}", summary.serial.clone()),
        ("{sha256}", grouped(&summary.sha256)),
    ];
    fill(PAGE, &values)
}

/// Puts each value in its place, in one pass: what a value says is never looked at again.
fn fill(page: &str, values: &[(&str, String)]) -> String {
    let mut filled = String::with_capacity(page.len() + 1024);
    let mut rest = page;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        match values.iter().find(|(key, _)| from.starts_with(key)) {
            Some((key, value)) => {
                escape(value, &mut filled);
                rest = from.strip_prefix(key).unwrap_or_default();
            }
            None => {
                filled.push('{');
                rest = from.strip_prefix('{').unwrap_or_default();
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn escape(value: &str, into: &mut String) {
    for c in value.chars() {
        match c {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            c => into.push(c),
        }
    }
}

/// To the minute, as people read it.
fn shown(at: Timestamp) -> String {
    let at = at.to_string();
    let minutes = at.get(..16).unwrap_or(&at).replace('T', " ");
    format!("{minutes} UTC")
}

/// `ab:cd:…`, as browsers show it.
fn grouped(hex: &str) -> String {
    hex.chars().enumerate().fold(String::new(), |mut text, (at, c)| {
        if at > 0 && at % 2 == 0 {
            text.push(':');
        }
        text.push(c);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_and_never_interpreted() {
        let values = [("{a}", "<b>{c}".to_owned()), ("{c}", "d".to_owned())];
        assert_eq!(fill("{ {a} {x} {c}", &values), "{ &lt;b&gt;{c} {x} d");
    }

    #[test]
    fn every_place_of_the_page_has_a_value() {
        for key in
            ["name", "issuer", "from", "from shown", "until", "until shown", "serial", "sha256"]
        {
            assert!(PAGE.contains(&format!("{{{key}}}")), "{key}");
        }
        assert_eq!(shown(Timestamp::from_seconds(4_000_000_000)), "2096-10-02 07:06 UTC");
        assert_eq!(grouped("abcd01"), "ab:cd:01");
    }
}
