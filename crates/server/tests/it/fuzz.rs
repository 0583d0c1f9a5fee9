//! Whatever is sent, the answer is one: never a panic, never a 5xx.

use axum::body::Body;
use http::{Method, Request, Uri, header};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::kit::{Kit, asked};

/// JSON of any shape, with the field names of our requests strewn in.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z*.-]{0,20}\\.(com|test|co\\.uk)".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = prop_oneof![
            any::<String>(),
            prop::sample::select(vec![
                "name",
                "tenant",
                "resource",
                "target",
                "edge_group",
                "labels",
                "orchestration_id",
                "certificate",
                "chain",
                "key",
                "items",
                "dry_run",
                "scope",
                "edge",
                "group",
                "issued_by",
                "up_to",
                "observations",
                "domain_id",
                "sha256",
                "strangers",
                "adopted",
                "file",
                "names",
                "mode",
                "all",
                "error",
            ])
            .prop_map(ToOwned::to_owned),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

const ROUTES: &[(Method, &str)] = &[
    (Method::POST, "/v1/domains"),
    (Method::POST, "/v1/domains:batch"),
    (Method::POST, "/v1/domains:renew"),
    (Method::PATCH, "/v1/domains/shop.example.com"),
    (Method::PUT, "/v1/claims/r"),
    (Method::POST, "/v1/tokens"),
    (Method::PUT, "/v1/edges/edge-1"),
    (Method::POST, "/v1/edges/edge-1/report"),
    (Method::POST, "/v1/edges/edge-1/adopt"),
    (Method::POST, "/v1/acme/account"),
];

fn kit() -> (Runtime, Kit) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kit = runtime.block_on(async {
        let kit = Kit::new().await;
        kit.add("shop.example.com").await;
        kit
    });
    (runtime, kit)
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

fn send(runtime: &Runtime, kit: &Kit, request: Request<Body>) -> Result<(), TestCaseError> {
    let answer = runtime.block_on(kit.send(request));
    prop_assert!(answer.status.as_u16() < 500, "{} {}", answer.status, answer.text());
    if answer.status.as_u16() >= 400 && answer.status.as_u16() != 404 {
        prop_assert_eq!(&answer.headers[header::CONTENT_TYPE], "application/problem+json");
    }
    Ok(())
}

fn with_body(kit: &Kit, route: &(Method, &str), body: Body) -> Request<Body> {
    asked(route.0.clone(), route.1, &kit.admin)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::IF_MATCH, "*")
        .body(body)
        .unwrap()
}

#[test]
fn any_json_is_answered() {
    let (runtime, kit) = kit();
    let strategy = (prop::sample::select(ROUTES), any_json());
    let run = |(route, body): ((Method, &str), Value)| {
        send(&runtime, &kit, with_body(&kit, &route, Body::from(body.to_string())))
    };
    runner(512).run(&strategy, run).unwrap();
}

#[test]
fn almost_right_requests_are_answered() {
    let (runtime, kit) = kit();
    let field = prop::sample::select(vec![
        "tenant",
        "resource",
        "target",
        "edge_group",
        "labels",
        "orchestration_id",
        "certificate",
    ]);
    let strategy = ("[a-z]{1,8}\\.example\\.com", field, any_json());
    let run = |(name, field, value): (String, &str, Value)| {
        let body = json!({"name": name, field: value}).to_string();
        send(&runtime, &kit, with_body(&kit, &ROUTES[0], Body::from(body)))
    };
    runner(256).run(&strategy, run).unwrap();
}

#[test]
fn any_bytes_are_answered() {
    let (runtime, kit) = kit();
    let strategy = (prop::sample::select(ROUTES), prop::collection::vec(any::<u8>(), 0..200));
    let run = |(route, body): ((Method, &str), Vec<u8>)| {
        send(&runtime, &kit, with_body(&kit, &route, Body::from(body)))
    };
    runner(256).run(&strategy, run).unwrap();
}

/// Percent-encodes every byte that is not plain, and now and then one that is.
fn encoded(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    bytes
        .iter()
        .map(
            |&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") },
        )
        .collect()
}

#[test]
fn any_path_segment_and_query_is_answered() {
    let (runtime, kit) = kit();
    let around = prop::sample::select(vec![
        ("/v1/domains/", ""),
        ("/v1/domains/", "/history"),
        ("/v1/domains/", "/explain"),
        ("/v1/domains/", "/bundle"),
        ("/v1/claims/", ""),
        ("/.well-known/acme-challenge/", ""),
        ("/.well-known/holdfast/", ""),
        ("/v1/domains?q=", ""),
        ("/v1/domains?cursor=", ""),
        ("/v1/domains?tenant=", "&limit=5"),
        ("/v1/domains?", ""),
        ("/", ""),
    ]);
    let segment = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        any::<String>().prop_map(String::into_bytes),
        "[A-Za-z0-9_-]{0,24}".prop_map(String::into_bytes),
    ];
    let run = |((before, after), segment): ((&str, &str), Vec<u8>)| {
        let path = format!("{before}{}{after}", encoded(&segment));
        let Ok(uri) = path.parse::<Uri>() else { return Ok(()) };
        let request = asked(Method::GET, &uri.to_string(), &kit.admin).body(Body::empty());
        send(&runtime, &kit, request.unwrap())
    };
    runner(768).run(&(around, segment), run).unwrap();
}
