//! Bad input, as a table: each line a request and the refusal it must get.

use axum::body::Body;
use http::{Method, Request, header};
use serde_json::json;

use crate::kit::{Kit, asked};

/// What is sent: method, path, content type, body; and what must come back: status, code.
type Case = (&'static str, &'static str, &'static str, String, u16, &'static str);

const JSON: &str = "application/json";

fn post(body: &serde_json::Value, code: &'static str) -> Case {
    ("POST", "/v1/domains", JSON, body.to_string(), 422, code)
}

fn raw(body: &str, code: &'static str) -> Case {
    ("POST", "/v1/domains", JSON, body.to_owned(), 422, code)
}

fn get(path: &'static str, status: u16, code: &'static str) -> Case {
    ("GET", path, "", String::new(), status, code)
}

fn names() -> Vec<Case> {
    let long = format!("{}.example.com", "a".repeat(64));
    [
        ("", "invalid-name"),
        ("localhost", "invalid-name"),
        ("co.uk", "invalid-name"),
        ("192.0.2.1", "invalid-name"),
        ("[2001:db8::1]", "invalid-name"),
        ("https://shop.example.com/", "invalid-name"),
        ("shop.example.com:443", "invalid-name"),
        ("a..example.com", "invalid-name"),
        ("-a.example.com", "invalid-name"),
        ("a_b.example.com", "invalid-name"),
        ("a b.example.com", "invalid-name"),
        ("shop.example.com\u{0}", "invalid-name"),
        (long.as_str(), "invalid-name"),
        ("edge.example.net", "invalid-name"),
        ("x.edge.example.net", "invalid-name"),
        ("*.example.com", "wildcard-unsupported"),
    ]
    .into_iter()
    .map(|(name, code)| post(&json!({"name": name}), code))
    .collect()
}

fn fields() -> Vec<Case> {
    let with =
        |field: &str, value: serde_json::Value| json!({"name": "a.example.com", field: value});
    let many: std::collections::BTreeMap<_, _> = (0..65).map(|n| (format!("l{n}"), "v")).collect();
    vec![
        post(&with("tenant", json!("")), "invalid-field"),
        post(&with("tenant", json!("a\u{0}b")), "invalid-field"),
        post(&with("tenant", json!("t".repeat(256))), "invalid-field"),
        post(&with("resource", json!("line\nbreak")), "invalid-field"),
        post(&with("resource", json!("r".repeat(256))), "invalid-field"),
        post(&with("edge_group", json!("g".repeat(64))), "invalid-field"),
        post(&with("orchestration_id", json!("")), "invalid-field"),
        post(&with("labels", json!({"": "v"})), "invalid-field"),
        post(&with("labels", json!({"a b": "v"})), "invalid-field"),
        post(&with("labels", json!({"a": "v".repeat(256)})), "invalid-field"),
        post(&with("labels", json!({"a": "\u{7}"})), "invalid-field"),
        post(&with("labels", json!(many)), "invalid-field"),
        post(&with("labels", json!({"a": 1})), "invalid-body"),
        post(&with("labels", json!(["a"])), "invalid-body"),
        post(&with("target", json!("localhost")), "invalid-target"),
        post(&with("target", json!("a.example.com")), "invalid-target"),
        post(&with("target", json!("x.a.example.com")), "invalid-target"),
        post(&with("certificate", json!({"chain": "x", "key": "y"})), "invalid-certificate"),
        post(&with("certificate", json!({"chain": "x"})), "invalid-body"),
        post(&with("certificate", json!(["x", "y"])), "invalid-body"),
        post(&with("certificate", json!({"chain": "x", "key": "y", "more": 1})), "unknown-field"),
        post(&with("tenat", json!("t")), "unknown-field"),
        post(&with("state", json!("Active")), "unknown-field"),
    ]
}

fn bodies() -> Vec<Case> {
    let deep =
        |field: &str| format!("{{\"{field}\": {}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let large = json!({"name": "a.example.com", "tenant": "t".repeat(300_000)}).to_string();
    let all = vec![
        raw("", "malformed-json"),
        raw("{", "malformed-json"),
        raw("{\"name\": \"a.example.com\"} x", "malformed-json"),
        raw("{'name': 1}", "malformed-json"),
        raw("null", "invalid-body"),
        raw("[]", "invalid-body"),
        raw("{}", "invalid-body"),
        raw(" [\"a.example.com\", null, null, null, null, null, null, null]", "invalid-body"),
        raw("{\"name\": null}", "invalid-body"),
        raw("{\"name\": 7}", "invalid-body"),
        raw("{\"name\": \"a.example.com\", \"name\": \"b.example.com\"}", "invalid-body"),
        raw(&deep("name"), "invalid-body"),
        raw(&deep("more"), "unknown-field"),
        ("POST", "/v1/domains:batch", JSON, deep("items"), 422, "malformed-json"),
    ];
    let mut all = all;
    all.push(("POST", "/v1/domains", JSON, large, 413, "payload-too-large"));
    all.push(("POST", "/v1/domains", "", "{}".into(), 415, "unsupported-media-type"));
    all.push(("POST", "/v1/domains", "text/plain", "{}".into(), 415, "unsupported-media-type"));
    let form = "application/x-www-form-urlencoded";
    all.push(("POST", "/v1/domains", form, "name=a".into(), 415, "unsupported-media-type"));
    all
}

fn queries() -> Vec<Case> {
    vec![
        get("/v1/domains?limit=0", 422, "invalid-parameter"),
        get("/v1/domains?limit=1001", 422, "invalid-parameter"),
        get("/v1/domains?limit=-1", 422, "invalid-parameter"),
        get("/v1/domains?limit=ten", 422, "invalid-parameter"),
        get("/v1/domains?limit=5&limit=6", 422, "invalid-parameter"),
        get("/v1/domains?state=active", 422, "invalid-parameter"),
        get("/v1/domains?sate=Active", 422, "unknown-parameter"),
        get("/v1/domains?q=%00", 422, "invalid-parameter"),
        get("/v1/domains?cursor=%21%21", 422, "invalid-cursor"),
        get("/v1/domains?cursor=AAAA", 422, "invalid-cursor"),
        get("/v1/domains/shop.example.com/history?cursor=bm9uZQ", 422, "invalid-cursor"),
        get("/v1/events?after=yesterday", 422, "invalid-cursor"),
        get("/v1/events?domain=shop", 422, "invalid-parameter"),
    ]
}

fn paths() -> Vec<Case> {
    vec![
        get("/v1/domains/none.example.com", 404, "not-found"),
        get("/v1/domains/not%20a%20name", 404, "not-found"),
        get("/v1/domains/00000000-0000-0000-0000-000000000000", 404, "not-found"),
        get("/v1/domains/%ff", 422, "invalid-path"),
        get("/v1/domains/shop.example.com/bundle", 403, "plaintext-refused"),
        get("/v1/claims/none", 404, "not-found"),
        get("/v1/claims/%00", 422, "invalid-field"),
        get("/v1/nothing", 404, "not-found"),
        get("/nothing", 404, "not-found"),
        get("/v1/domains/a/b/c", 404, "not-found"),
        ("PUT", "/v1/domains", JSON, "{}".into(), 405, "method-not-allowed"),
        ("DELETE", "/v1/edges", "", String::new(), 405, "method-not-allowed"),
        ("POST", "/health/live", "", String::new(), 405, "method-not-allowed"),
        ("DELETE", "/v1/claims/r", "", String::new(), 422, "invalid-parameter"),
        ("PUT", "/v1/claims/r", JSON, "{\"name\": \"a.example.com\"}".into(), 422, "invalid-body"),
        ("PUT", "/v1/claims/r", JSON, "{\"orchestration_id\": \"\"}".into(), 422, "invalid-field"),
        (
            "PUT",
            "/v1/claims/r",
            JSON,
            "{\"orchestration_id\": \"o\", \"name\": \"com\"}".into(),
            422,
            "invalid-name",
        ),
        ("DELETE", "/v1/claims/none?orchestration_id=o", "", String::new(), 404, "not-found"),
        ("PATCH", "/v1/domains/shop.example.com", JSON, "{}".into(), 428, "precondition-required"),
        (
            "DELETE",
            "/v1/domains/shop.example.com?revoke=1",
            "",
            String::new(),
            422,
            "invalid-parameter",
        ),
        ("DELETE", "/v1/domains/none.example.com", "", String::new(), 404, "not-found"),
        ("POST", "/v1/tokens", JSON, "{\"scope\": \"root\"}".into(), 422, "invalid-field"),
        ("POST", "/v1/tokens", JSON, "{\"scope\": \"edge\"}".into(), 422, "invalid-field"),
        (
            "POST",
            "/v1/tokens",
            JSON,
            "{\"scope\": \"read\", \"edge\": \"e\"}".into(),
            422,
            "invalid-field",
        ),
        ("DELETE", "/v1/tokens/nonsense", "", String::new(), 404, "not-found"),
        ("POST", "/v1/domains:renew", JSON, "{\"issued_by\": \"\"}".into(), 422, "invalid-field"),
        (
            "POST",
            "/v1/domains:renew",
            JSON,
            "{\"issued_by\": \"https://ca.example/directory\"}".into(),
            422,
            "same-directory",
        ),
        ("POST", "/v1/domains:batch", JSON, "{\"items\": 7}".into(), 422, "invalid-body"),
        (
            "POST",
            "/v1/domains:batch",
            JSON,
            "{\"items\": [], \"dryrun\": true}".into(),
            422,
            "unknown-field",
        ),
    ]
}

#[tokio::test]
async fn every_bad_request_is_refused_with_its_status_and_code() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let cases: Vec<Case> =
        [names(), fields(), bodies(), queries(), paths()].into_iter().flatten().collect();
    assert!(cases.len() > 60, "{}", cases.len());
    let mut wrong = Vec::new();
    for (method, path, content_type, body, status, code) in cases {
        let mut request = asked(method.parse().unwrap(), path, &kit.admin);
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let shown: String = body.chars().take(120).collect();
        let answer = kit.send(request.body(Body::from(body)).unwrap()).await;
        let seen = answer.json()["code"].as_str().unwrap_or_default().to_owned();
        let is_problem = answer.headers[header::CONTENT_TYPE] == "application/problem+json";
        if (answer.status.as_u16(), seen.as_str(), is_problem) != (status, code, true) {
            wrong.push(format!(
                "{method} {path} {shown}: expected {status} {code}, got {}",
                answer.text()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let left = kit.get("/v1/domains").await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "a refused request wrote something");
}

#[tokio::test]
async fn a_method_that_does_not_fit_is_told_which_do() {
    let kit = Kit::new().await;
    let answer = kit.call(Method::PUT, "/v1/domains").await;
    answer.problem(405, "method-not-allowed");
    assert_eq!(answer.headers[header::ALLOW], "GET,HEAD,POST");
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_told() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let unknown = "Bearer hf_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for authorization in
        ["", "Bearer", "Bearer ", "Basic YTpi", "bearer\u{20}x", unknown, "Bearer a b"]
    {
        let mut request = Request::get("/v1/domains/shop.example.com");
        if !authorization.is_empty() {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let answer = kit.send(request.body(Body::empty()).unwrap()).await;
        answer.problem(401, "unauthorized");
        let challenge = answer.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
        assert!(challenge.starts_with("Bearer realm=\"holdfast\""), "{challenge}");
    }
}

#[tokio::test]
async fn problems_read_well() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let mut shown = String::new();
    for (method, path, body) in [
        ("POST", "/v1/domains", json!({"name": "https://shop.example.com/"})),
        ("POST", "/v1/domains", json!({"name": "a.example.com", "tenat": "t"})),
        ("POST", "/v1/domains", json!({"name": 7})),
        ("POST", "/v1/domains", json!({"name": "a.example.com", "labels": {"a": 7}})),
        ("POST", "/v1/domains", json!({"name": "a.example.com", "tenant": "a\u{0}b"})),
        ("POST", "/v1/domains", json!({"name": "edge.example.net"})),
        (
            "POST",
            "/v1/domains",
            json!({"name": "a.example.com", "certificate": {"chain": "x", "key": "y"}}),
        ),
        (
            "POST",
            "/v1/domains",
            json!({"name": "a.example.com", "certificate": "-----BEGIN PRIVATE KEY-----\nsecret"}),
        ),
        (
            "POST",
            "/v1/domains",
            json!({"name": "a.example.com", "certificate": {"chain": "x", "key": ["secret"]}}),
        ),
        ("POST", "/v1/domains", json!(["a.example.com"])),
        ("PUT", "/v1/claims/r", json!({})),
        ("PATCH", "/v1/domains/shop.example.com", json!({})),
        ("GET", "/v1/domains/none.example.com", json!(null)),
        ("GET", "/v1/domains?limit=5000", json!(null)),
        ("GET", "/v1/domains?sate=Active", json!(null)),
        ("GET", "/v1/domains/shop.example.com/bundle", json!(null)),
    ] {
        let answer = kit.json(method.parse().unwrap(), path, &body).await;
        shown.push_str(&format!("{method} {path} {body}\n{}\n\n", answer.text()));
    }
    insta::assert_snapshot!(shown);
}
