//! Alerts over HTTP; what decides them is tested where it is decided.

use std::time::Duration;

use axum::body::Body;
use holdfast_model::{CertificateSummary, DomainId, Hostname, Note, Outcome};
use holdfast_store::{
    Actor, EdgeReport, EventBody, EventCursor, Import, NewCertificate, NewDomain, NewEdge,
    Products, Secret,
};
use holdfast_testkit::Postgres;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tower::ServiceExt as _;

use crate::kit::{Kit, actor};
use crate::work::{account, step};

#[tokio::test]
async fn a_quiet_installation_has_none() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let alerts = kit.get("/v1/alerts").await.expect(200);
    assert_eq!(alerts, json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn a_pause_an_edge_in_trouble_and_many_failures_are_told() {
    let kit = Kit::new().await;
    for n in 0..10 {
        kit.add(&format!("n{n}.example.com")).await;
        kit.work(Outcome::hopeless("test", "as the test says"), Default::default()).await;
    }
    let account = account(&kit).await;
    kit.store.pause_account(account.id, Duration::from_secs(600), "slow down").await.unwrap();
    let new = NewEdge { name: "fra-1".into(), group: "default".into() };
    let edge = kit.store.register_edge(&new).await.unwrap();
    let error = Some(Note::new("edge-disk", "the disk is full"));
    let report = EdgeReport { error, ..EdgeReport::default() };
    kit.store.observe(edge.id, &report, &actor()).await.unwrap();
    let alerts = kit.get("/v1/alerts").await.expect(200);
    let codes: Vec<_> =
        alerts["items"].as_array().unwrap().iter().map(|alert| &alert["code"]).collect();
    assert_eq!(
        codes,
        [&json!("many-failures"), &json!("edge-error"), &json!("ca-paused")],
        "{alerts}"
    );
    let edges = kit.get("/v1/edges").await.expect(200);
    let edge = &edges["items"][0];
    assert_eq!((&edge["name"], &edge["live"]), (&json!("fra-1"), &json!(true)));
    assert_eq!(edge["last_error"], json!({"code": "edge-disk", "detail": "the disk is full"}));
}

/// What tells of alerts stands still itself: the alert and the metric do not.
#[tokio::test]
async fn a_transaction_in_another_database_that_holds_the_event_log_is_told() {
    let kit = Kit::on_postgres().await;
    let server = Postgres::shared().await.unwrap();
    let mut session = PgConnection::connect(&server.database().await.unwrap()).await.unwrap();
    session.execute("BEGIN").await.unwrap();
    session.execute("SELECT pg_current_xact_id()").await.unwrap();
    kit.add("shop.example.com").await;
    let mut clock = PgConnection::connect(&server.url("test_0")).await.unwrap();
    clock.execute("UPDATE event SET at = at - interval '90 seconds'").await.unwrap();
    kit.state.settle_alerts(None).await.unwrap();
    let told = kit.store.events_after(EventCursor::default(), 10).await.unwrap();
    assert!(told.is_empty(), "{told:?}");
    let alerts = kit.get("/v1/alerts").await.expect(200);
    let alert = &alerts["items"][0];
    assert_eq!(alert["code"], "event-log-behind", "{alerts}");
    assert!(alert["detail"].as_str().unwrap().contains("database test_1"), "{alerts}");
    let answer = kit.router.clone().oneshot(Request::get("/metrics").body(Body::empty()).unwrap());
    let metrics = answer.await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let lag = metrics.lines().find_map(|line| line.strip_prefix("holdfast_event_log_lag_seconds "));
    assert!(lag.unwrap().parse::<f64>().unwrap() >= 90.0, "{lag:?}");
    session.execute("COMMIT").await.unwrap();
    assert_eq!(kit.get("/v1/alerts").await.expect(200)["items"], json!([]));
}

/// A domain with a certificate that has so much of its 90 days left.
async fn with_days_left(kit: &Kit, name: &str, days: u64) {
    let now = kit.store.ping().await.unwrap();
    let day = Duration::from_secs(86_400);
    let summary = CertificateSummary {
        serial: name.into(),
        sha256: format!("sha-{name}"),
        not_before: now.minus(day * 90 - day * u32::try_from(days).unwrap()),
        not_after: now.plus(day * u32::try_from(days).unwrap()),
        issuer: "Test CA".into(),
        directory: "imported".into(),
    };
    let key = Secret::from("key".to_owned());
    let certificate = NewCertificate { chain_pem: "chain".into(), key, summary };
    kit.add(name).await;
    let products = Products { certificate: Some(certificate), ..Products::default() };
    step(kit, name, Outcome::Imported, products).await;
}

#[tokio::test]
async fn a_certificate_near_its_end_is_told_once_by_name() {
    let kit = Kit::new().await;
    with_days_left(&kit, "fine.example.com", 40).await;
    with_days_left(&kit, "late.example.com", 5).await;
    let alerts = kit.get("/v1/alerts").await.expect(200);
    let items = alerts["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{alerts}");
    assert_eq!(items[0]["code"], "certificate-expiring");
    assert_eq!(items[0]["domains"], json!(["late.example.com"]));
    for _ in 0..3 {
        kit.state.settle_alerts(None).await.unwrap();
    }
    let line = |kind: &str, subject: &str| (kind.to_owned(), subject.to_owned());
    let expected =
        [line("alert-raised", "certificates"), line("domain-expiring", "late.example.com")];
    assert_eq!(notices(&kit).await, expected);
}

/// What was told, in the order of its kinds.
async fn notices(kit: &Kit) -> Vec<(String, String)> {
    let events = kit.store.events_after(EventCursor::default(), 100).await.unwrap();
    let told = events.into_iter().filter_map(|event| match event.body {
        EventBody::Notice { kind, subject, .. } => Some((kind, subject)),
        EventBody::Transition { .. } => None,
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

/// An alert can be cleared. What receivers were told of one name's end cannot be taken back.
#[tokio::test]
async fn a_clock_that_has_just_stepped_tells_no_name_of_its_end() {
    let kit = Kit::new().await;
    with_days_left(&kit, "late.example.com", 5).await;
    let (clock, now) = (kit.state.cluster.clock(), kit.store.ping().await.unwrap());
    for said in [now, now.plus(Duration::from_secs(60))] {
        clock.answered(clock.ask(), said);
    }
    kit.state.settle_alerts(None).await.unwrap();
    let told = notices(&kit).await;
    assert!(told.iter().all(|(kind, _)| kind != "domain-expiring"), "{told:?}");
}

/// More than anybody would list, whose short lives end sooner and are in good order.
#[tokio::test]
async fn many_that_end_sooner_hide_none_that_is_late() {
    let kit = Kit::new().await;
    let (now, day) = (kit.store.ping().await.unwrap(), Duration::from_secs(86_400));
    let new = |name: String, lived: u32, left: u32| {
        let summary = CertificateSummary {
            serial: name.clone(),
            sha256: format!("sha-{name}"),
            not_before: now.minus(day * lived),
            not_after: now.plus(day * left),
            issuer: "Test CA".into(),
            directory: "imported".into(),
        };
        let key = Secret::from("key".to_owned());
        let certificate = NewCertificate { chain_pem: "chain".into(), key, summary };
        imported(&name, Import { certificate })
    };
    let mut all: Vec<_> = (0..1_200).map(|n| new(format!("n{n}.example.com"), 3, 3)).collect();
    all.push(new("late.example.com".to_owned(), 83, 7));
    for added in kit.store.add_many(&all).await.unwrap() {
        added.unwrap();
    }
    let alerts = kit.get("/v1/alerts").await.expect(200);
    let told = &alerts["items"][0];
    assert_eq!(
        (&told["code"], &told["domains"]),
        (&json!("certificate-expiring"), &json!(["late.example.com"]))
    );
    assert!(
        told["detail"].as_str().unwrap().starts_with("1 certificate is near its end and was not"),
        "{told}"
    );
}

fn imported(name: &str, import: Import) -> NewDomain {
    let host = |name: &str| Hostname::parse(name).unwrap();
    NewDomain {
        id: DomainId::new(),
        name: host(name),
        tenant: None,
        resource: None,
        target: host("edge.example.net"),
        target_given: false,
        edge_group: "default".to_owned(),
        labels: Default::default(),
        orchestration_id: name.to_owned(),
        import: Some(import),
        actor: Actor { instance: "here".to_owned(), name: "tester".to_owned() },
    }
}
