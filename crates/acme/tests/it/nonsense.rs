//! Answers that make no sense, or come from something that stands before the CA.

use std::time::Duration;

use holdfast_acme::{Ca, Class, Proof, Stuck};
use holdfast_model::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use crate::kit::{config, name};
use crate::paper::Authority;
use crate::scripted::{Line, Scripted};

async fn connected(ca: &Scripted) -> Ca {
    let mut config = config(ca.url("/directory"), "");
    config.extra_roots_pem = None;
    Ca::new(config, crate::store::open().await).unwrap()
}

fn line(status: u16, headers: &[(&'static str, &str)], body: &str) -> Line {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Line { status, headers, body: body.as_bytes().to_vec() }
}

fn said(class: &Class) -> (&'static str, Option<u64>, &str) {
    let (name, after) = match class {
        Class::Wait { after, .. } => ("wait", after.map(|after| after.as_secs())),
        Class::Unavailable(_) => ("unavailable", None),
        Class::ActionRequired(_) => ("action-required", None),
        Class::Doubtful(_) => ("doubtful", None),
        Class::Trouble(_) => ("trouble", None),
        Class::Hopeless(_) => ("hopeless", None),
        Class::OrderGone(_) => ("order-gone", None),
        Class::AccountGone(_) => ("account-gone", None),
        Class::AccountUnusable(_) => ("account-unusable", None),
    };
    (name, after, &class.note().code)
}

#[tokio::test]
async fn every_answer_to_a_new_order_leads_somewhere() {
    let scripted = Scripted::start().await;
    let ca = connected(&scripted).await;
    let date = ("Date", "Fri, 31 Dec 1999 23:59:00 GMT");
    let until = ("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT");
    let limited = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"later"}"#;
    let caa = r#"{"type":"urn:ietf:params:acme:error:compound","subproblems":[{"type":"urn:ietf:params:acme:error:caa","detail":"no","identifier":{"type":"dns","value":"a.test"}}]}"#;
    let order = r#"{"status":"pending","authorizations":[],"finalize":"http://127.0.0.1/f"}"#;
    let malformed = r#"{"type":"urn:ietf:params:acme:error:malformed","detail":"no"}"#;
    let action = r#"{"type":"urn:ietf:params:acme:error:userActionRequired","instance":"https://ca.example/a"}"#;
    let html = ("Content-Type", "text/html; charset=utf-8");
    let cases = [
        (line(429, &[("Retry-After", "7")], limited), ("wait", Some(7), "acme-rate-limited")),
        (line(429, &[date, until], limited), ("wait", Some(59), "acme-rate-limited")),
        (line(429, &[until], "<html>slow down</html>"), ("wait", Some(0), "acme-rate-limited")),
        (line(429, &[], ""), ("wait", None, "acme-rate-limited")),
        (line(400, &[], limited), ("wait", None, "acme-rate-limited")),
        (
            line(503, &[("Retry-After", "120")], "<html>maintenance"),
            ("wait", Some(120), "acme-server"),
        ),
        (line(503, &[], ""), ("wait", None, "acme-server")),
        (line(500, &[("Retry-After", "5")], "{}"), ("wait", Some(5), "acme-server")),
        (line(500, &[], "oops"), ("unavailable", None, "acme-server")),
        (line(502, &[], "<html>bad gateway"), ("unavailable", None, "acme-server")),
        (line(403, &[], caa), ("hopeless", None, "acme-caa")),
        (line(403, &[], "<html>blocked"), ("unavailable", None, "ca-not-acme")),
        (line(302, &[("Location", "http://127.0.0.1/")], ""), ("unavailable", None, "ca-not-acme")),
        (
            line(201, &[("Location", "http://127.0.0.1/o")], "not json"),
            ("unavailable", None, "ca-not-acme"),
        ),
        (
            line(201, &[("Location", "http://127.0.0.1/o")], "{}"),
            ("unavailable", None, "ca-not-acme"),
        ),
        (line(201, &[], order), ("unavailable", None, "ca-not-acme")),
        (line(200, &[], r#"{"status":"maintenance"}"#), ("unavailable", None, "ca-not-acme")),
        (line(200, &[], ""), ("unavailable", None, "ca-not-acme")),
        (line(201, &[], &order[..40]), ("unavailable", None, "ca-not-acme")),
        (line(200, &[html], "<html>"), ("unavailable", None, "ca-not-acme")),
        (line(201, &[], &"x".repeat(2_000_000)), ("unavailable", None, "ca-unreachable")),
        (line(404, &[], ""), ("unavailable", None, "ca-not-acme")),
        (line(404, &[html], "<html>gone"), ("unavailable", None, "ca-not-acme")),
        (line(404, &[], "{}"), ("unavailable", None, "ca-not-acme")),
        (line(405, &[], malformed), ("unavailable", None, "ca-not-acme")),
        (line(400, &[], malformed), ("trouble", None, "acme-malformed")),
        (line(403, &[], action), ("action-required", None, "acme-terms")),
    ];
    for (line, expected) in cases {
        let shown = format!("{} {:?}", line.status, line.headers);
        scripted.say(line);
        let error = ca.new_order(&name("a.example.com"), None).await.unwrap_err();
        assert_eq!(said(&error.class()), expected, "{shown}: {error}");
    }
}

/// An order that cannot be read is given up before it could be finalized; after that it is kept for a while.
#[tokio::test]
async fn an_order_that_makes_no_sense_is_not_kept_for_ever() {
    let scripted = Scripted::start().await;
    let ca = connected(&scripted).await;
    ca.account().await.unwrap();
    let url = scripted.url("/some-order");
    let malformed = r#"{"type":"urn:ietf:params:acme:error:malformed","detail":"no such thing"}"#;
    let outage = ("unavailable", None, "ca-not-acme");
    for (status, body, expected) in [
        (200, "{}", outage),
        (200, r#"{"status":"odd"}"#, outage),
        (200, r#"{"status":"maintenance"}"#, outage),
        (403, r#"{"detail":"Forbidden"}"#, outage),
        (400, r#"{"type":"about:blank","title":"Bad Request"}"#, outage),
        (
            404,
            r#"{"type":"https://tools.ietf.org/html/rfc9110#section-15.5.5","title":"Not Found","status":404}"#,
            outage,
        ),
        (400, malformed, ("order-gone", None, "acme-malformed")),
    ] {
        scripted.say_at("/some-order", line(status, &[], body));
        let error = ca.proof(&url).await.unwrap_err();
        assert_eq!(said(&error.class()), expected, "{body}");
        let error = ca.certificate(&url).await.unwrap_err();
        assert_eq!(error.stuck(), Some(Stuck::Nonsense), "{body}");
    }
    scripted.say_at("/some-order", line(200, &[], "<html>"));
    let error = ca.certificate(&url).await.unwrap_err();
    assert_eq!((said(&error.class()), error.stuck()), (outage, Some(Stuck::Nonsense)));
    let elsewhere = ca.certificate("https://elsewhere.example/order").await.unwrap_err();
    assert_eq!(elsewhere.stuck(), Some(Stuck::Gone));
}

/// A load balancer that closes every connection after one answer: whatever is merely read is read all the same.
#[tokio::test]
async fn connections_that_end_after_each_answer_cost_no_read() {
    let scripted = Scripted::start().await;
    let ca = connected(&scripted).await;
    ca.account().await.unwrap();
    let order = json!({ "status": "ready", "authorizations": [], "finalize": scripted.url("/f") });
    scripted.say(line(200, &[], &order.to_string()));
    scripted.close_each();
    for number in 0..50 {
        let read = ca.order(&scripted.url("/some-order")).await;
        read.unwrap_or_else(|error| panic!("read {number} was lost: {:?}", error.class()));
    }
}

/// A page instead of the answer to a challenge is not the CA's word that it was told.
#[tokio::test]
async fn a_challenge_is_announced_only_to_a_ca() {
    let scripted = Scripted::start().await;
    let ca = connected(&scripted).await;
    let authorization = scripted.url("/authorization");
    let order = json!({ "status": "pending", "authorizations": [authorization], "finalize": scripted.url("/f") });
    scripted.say_at("/some-order", line(200, &[], &order.to_string()));
    let challenge = json!({ "type": "http-01", "status": "pending", "token": "token", "url": scripted.url("/challenge") });
    let identifier = json!({ "type": "dns", "value": "a.example.com" });
    let authorization =
        json!({ "status": "pending", "identifier": identifier, "challenges": [challenge] });
    scripted.say_at("/authorization", line(200, &[], &authorization.to_string()));
    let proof = ca.proof(&scripted.url("/some-order")).await.unwrap();
    let Proof::Needed(challenge) = proof else { panic!("{proof:?}") };
    for body in ["", "OK", "<html>", "[]", "{"] {
        scripted.say(line(200, &[], body));
        let error = ca.accept(&challenge).await.unwrap_err();
        assert_eq!(said(&error.class()), ("unavailable", None, "ca-not-acme"), "{body}: {error}");
    }
    scripted.say(line(200, &[], r#"{"type":"http-01","status":"processing"}"#));
    ca.accept(&challenge).await.unwrap();
}

#[tokio::test]
async fn an_order_is_not_read_in_the_open() {
    let scripted = Scripted::start().await;
    let ca = connected(&scripted).await;
    let order = r#"{"status":"pending","authorizations":["http://ca.example.com/a"],"finalize":"http://ca.example.com/f"}"#;
    scripted.say(line(201, &[("Location", "http://ca.example.com/o")], order));
    let error = ca.new_order(&name("a.example.com"), None).await.unwrap_err();
    assert_eq!(said(&error.class()), ("trouble", None, "acme-bad-url"));
    assert!(error.to_string().contains("`http://ca.example.com/o` is not https"), "{error}");
    for url in ["", "not a url", "https://", "file:///etc/passwd", "http://ca.example.com/o"] {
        let class = ca.order(url).await.unwrap_err().class();
        assert_eq!(said(&class), ("order-gone", None, "acme-bad-url"), "{url}");
    }
}

#[tokio::test]
async fn a_directory_must_make_sense() {
    let cases = [
        ("newOrder", json!("http://ca.example.com/order"), "is not https"),
        ("keyChange", json!("::"), "is no URL"),
        ("revokeCert", json!("/revoke"), "is no URL"),
        ("newNonce", json!(7), "expected a string"),
        ("newAccount", json!(null), "expected a string"),
        ("meta", json!({ "profiles": [] }), "expected a map"),
    ];
    for (key, value, word) in cases {
        let scripted = Scripted::start().await;
        scripted.set_directory(key, value);
        let error = connected(&scripted).await.account().await.unwrap_err();
        let class = error.class();
        let (class, _, code) = said(&class);
        let expected = match word.contains("expected") {
            true => ("unavailable", "ca-not-acme"),
            false => ("trouble", "acme-malformed"),
        };
        assert_eq!((class, code), expected, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_nonce_that_is_refused_for_ever_is_given_up() {
    let scripted = Scripted::start().await;
    let ca = connected(&scripted).await;
    scripted.say(line(
        400,
        &[],
        r#"{"type":"urn:ietf:params:acme:error:badNonce","detail":"never"}"#,
    ));
    let error = ca.new_order(&name("a.example.com"), None).await.unwrap_err();
    assert_eq!(said(&error.class()), ("trouble", None, "acme-malformed"));
    assert!(error.to_string().contains("never") && scripted.asked() <= 12, "{error}");
}

#[tokio::test]
async fn windows_that_make_no_sense_are_none() {
    let scripted = Scripted::start().await;
    let ca = connected(&scripted).await;
    let chain = Authority::new().chain(&["a.example.com"], &rcgen::KeyPair::generate().unwrap());
    let window = |start: &str, end: &str| {
        json!({ "suggestedWindow": { "start": start, "end": end } }).to_string()
    };
    scripted.say(line(200, &[], &window("2030-01-01T00:00:00Z", "2030-01-02T00:00:00.5+01:00")));
    let good = ca.renewal_window(&chain).await.unwrap().unwrap();
    let end = Timestamp::parse("2030-01-01T23:00:00.5Z").unwrap();
    assert_eq!((good.retry_after, good.end), (None, end));
    scripted.say(line(200, &[], &window("2030-01-02T00:00:00Z", "2030-01-01T00:00:00Z")));
    assert_eq!(ca.renewal_window(&chain).await.unwrap(), None);
    for body in ["", "{}", "[]", &window("soon", "later")] {
        scripted.say(line(200, &[], body));
        let error = ca.renewal_window(&chain).await.unwrap_err();
        assert_eq!(said(&error.class()), ("unavailable", None, "ca-not-acme"), "{body}");
    }
    scripted.say(line(429, &[("Retry-After", "60")], ""));
    let error = ca.renewal_window(&chain).await.unwrap_err();
    assert!(
        matches!(error.class(), Class::Wait { after: Some(after), .. } if after == Duration::from_secs(60))
    );
}

#[test]
fn anything_may_come_over_the_wire() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let scripted = runtime.block_on(Scripted::start());
    let ca = runtime.block_on(connected(&scripted));
    let order = r#"\{"status":"(pending|ready|valid|odd)","authorizations":\["http://127.0.0.1:1/[a-z]{0,3}"\],"finalize":"[a-z]{0,5}"\}"#;
    let bytes = proptest::collection::vec(any::<u8>(), 0..300);
    let body = prop_oneof![bytes, order.prop_map(String::into_bytes)];
    let location = proptest::option::of("http://127\\.0\\.0\\.1:1/[a-z]{0,4}");
    proptest!(|(status in 200u16..600, body in body, location in location)| {
        let headers = location.iter().map(|location| ("Location", location.clone())).collect();
        scripted.say(Line { status, headers, body });
        runtime.block_on(async {
            let order = scripted.url("/some-order");
            let errors = [
                ca.new_order(&name("a.example.com"), None).await.err(),
                ca.order(&order).await.err(),
                ca.finalize(&order, b"").await.err(),
                ca.certificate(&order).await.err(),
            ];
            for error in errors.into_iter().flatten() {
                assert!(!error.class().note().code.is_empty());
            }
        });
    });
}
