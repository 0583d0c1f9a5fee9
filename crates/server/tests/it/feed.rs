//! The feed of edges: registered, polled, listed, fetched, reported; each edge within its own group.

use std::time::Duration;

use axum::body::Body;
use holdfast_model::{CertificateSummary, DomainId, Hostname, Outcome, Policy, Timestamp, decide};
use holdfast_server::{UNASKED_LOOK, token};
use holdfast_store::{
    Actor, Commit, Import, NewCertificate, NewDomain, NewToken, Products, Scope, Secret, Topic,
};
use holdfast_testkit::{Postgres, Scratch, eventually, pace, run_sql};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::bundle::{import, imported};
use crate::kit::{Answer, Kit, asked, worker};

/// Longest wait for what should happen soon.
const SOON: Duration = Duration::from_secs(30);

/// Asks as an edge.
pub(crate) async fn ask(kit: &Kit, token: &str, method: Method, path: &str, body: Value) -> Answer {
    let request = asked(method, path, token).header(header::CONTENT_TYPE, "application/json");
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    kit.send(request.body(body).unwrap()).await
}

pub(crate) async fn get(kit: &Kit, path: &str) -> Answer {
    ask(kit, &kit.edge, Method::GET, path, Value::Null).await
}

/// A token for another edge.
pub(crate) async fn token_for(kit: &Kit, edge: &str, group: &str) -> String {
    let text = token::mint().unwrap();
    let new = NewToken {
        name: format!("{edge}-token"),
        scope: Scope::Edge,
        hash: token::hash(&text),
        edge: Some(edge.to_owned()),
        group: Some(group.to_owned()),
    };
    kit.store.keep_token(&new).await.unwrap();
    text
}

/// Registers the edge of the kit's token.
pub(crate) async fn register(kit: &Kit) -> Value {
    let agent = json!({"agent": {"version": "1.0", "target": "haproxy", "mode": "apply"}});
    ask(kit, &kit.edge, Method::PUT, "/v1/edges/edge-1", agent).await.expect(200)
}

/// Adds a domain with a certificate and hands it to the edges; gives its id and fingerprint.
pub(crate) async fn deploy(kit: &Kit, name: &str) -> (String, String) {
    let domain = imported(kit, name, &import(name)).await;
    let id = domain["id"].as_str().unwrap().to_owned();
    hand_out(kit, &id).await;
    let now = kit.get(&format!("/v1/domains/{name}")).await.expect(200);
    (id, now["certificate"]["sha256"].as_str().unwrap().to_owned())
}

/// Works on this one of the domains that are due, as an engine would.
async fn hand_out(kit: &Kit, id: &str) {
    let batch = kit.store.claim(&worker(), 100, Duration::from_secs(30)).await.unwrap();
    let (own, others): (Vec<_>, Vec<_>) =
        batch.work.into_iter().partition(|claimed| claimed.domain.id.to_string() == id);
    let others: Vec<_> = others.iter().map(|other| (other.domain.id, other.epoch)).collect();
    kit.store.unclaim(&worker(), &others).await.unwrap();
    let claimed = own.first().expect("it is due");
    let commit = Commit {
        transition: decide(&claimed.domain, &Outcome::Imported, &Policy::default(), batch.now),
        products: Products { deploy: true, ..Products::default() },
        answers_request: false,
        keep_claim: false,
        actor: Actor { instance: "replica".into(), name: "worker".into() },
    };
    kit.store.commit(claimed, &commit).await.unwrap();
}

/// A cut key and another letter in the chain: told by its own name, of that certificate alone.
async fn damage_is_told_of_one_certificate(url: String, scratch: Scratch) {
    let kit = Kit::on(&url, scratch, |settings| settings.allow_plaintext = true).await;
    register(&kit).await;
    let (_, whole) = deploy(&kit, "whole.example.com").await;
    let damages = [
        (
            "UPDATE sealed SET value = substr(value, 1, 40) WHERE owner = 'certificate' AND id =",
            "key.example.com",
        ),
        (
            "UPDATE certificate SET chain_pem = substr(chain_pem, 1, 300) || '-' || substr(chain_pem, 302) WHERE id =",
            "chain.example.com",
        ),
    ];
    for (damage, name) in damages {
        let (_, sha256) = deploy(&kit, name).await;
        let of = format!("(SELECT id FROM certificate WHERE sha256 = '{sha256}')");
        run_sql(&url, &format!("{damage} {of}")).unwrap();
        for path in
            [format!("/v1/edges/edge-1/bundles/{sha256}"), format!("/v1/domains/{name}/bundle")]
        {
            let told = get(&kit, &path).await.problem(500, "certificate-damaged");
            assert!(told["detail"].as_str().unwrap().contains("go on serving"), "{told}");
        }
    }
    get(&kit, &format!("/v1/edges/edge-1/bundles/{whole}")).await.expect(200);
}

#[tokio::test]
async fn a_damaged_certificate_is_told_by_its_own_name_on_sqlite() {
    let scratch = Scratch::new().unwrap();
    let url = format!("sqlite:{}", scratch.path().join("holdfast.db").display());
    damage_is_told_of_one_certificate(url, scratch).await;
}

#[tokio::test]
async fn a_damaged_certificate_is_told_by_its_own_name_on_postgres() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    damage_is_told_of_one_certificate(url, Scratch::new().unwrap()).await;
}

async fn plain() -> Kit {
    Kit::with(|settings| settings.allow_plaintext = true).await
}

async fn the_whole_walk(kit: Kit) {
    let edge = register(&kit).await;
    assert_eq!((edge["name"].as_str(), edge["group"].as_str()), (Some("edge-1"), Some("default")));
    assert_eq!(edge["revision"], "0.0");
    let (id, sha256) = deploy(&kit, "shop.example.com").await;

    let changes = get(&kit, "/v1/edges/edge-1/changes?after=0.0&wait=30").await.expect(200);
    let item = &changes["items"][0];
    assert_eq!(item["name"], "shop.example.com");
    assert_eq!((item["domain_id"].as_str(), item["sha256"].as_str()), (Some(&*id), Some(&*sha256)));
    assert_eq!((&changes["more"], &changes["adopt"]), (&json!(false), &json!([])));
    assert_eq!(item["revision"], changes["up_to"]);

    let listing = get(&kit, "/v1/edges/edge-1/desired").await.expect(200);
    assert_eq!((&listing["items"], &listing["revision"]), (&changes["items"], &changes["up_to"]));

    let bundle = get(&kit, &format!("/v1/edges/edge-1/bundles/{sha256}")).await;
    assert_eq!(bundle.headers[header::ETAG], format!("\"{sha256}\""));
    let bundle = bundle.expect(200);
    assert_eq!(
        (bundle["name"].as_str(), bundle["domain_id"].as_str()),
        (Some("shop.example.com"), Some(&*id))
    );
    assert!(bundle["chain"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    assert!(bundle["key"].as_str().unwrap().contains("PRIVATE KEY"));

    let report = json!({
        "up_to": changes["up_to"], "mode": "observe", "error": null,
        "observations": [{"domain_id": id, "sha256": sha256, "error": null}],
    });
    let taken = ask(&kit, &kit.edge, Method::POST, "/v1/edges/edge-1/report", report).await;
    assert_eq!(taken.status, StatusCode::NO_CONTENT, "{}", taken.text());
    let domain = kit.get("/v1/domains/shop.example.com").await.expect(200);
    assert_eq!(domain["serving"]["sha256"], sha256);
    let listed = kit.get("/v1/domains").await.expect(200);
    assert_eq!(listed["items"][0]["serving"], domain["serving"]);
    let edges = kit.get("/v1/edges").await.expect(200);
    let edge = &edges["items"][0];
    assert_eq!(
        (&edge["live"], &edge["behind"], &edge["mode"]),
        (&json!(true), &json!(0), &json!("observe"))
    );
    assert_eq!((&edge["revision"], &edge["target"]), (&changes["up_to"], &json!("haproxy")));
}

/// Held up on its way, or at another replica: what a newer one said stands.
async fn a_late_report(kit: Kit) {
    let session = register(&kit).await["session"].as_i64().unwrap();
    let (id, sha256) = deploy(&kit, "shop.example.com").await;
    let report = |up_to: &str, sha256: Option<&str>| json!({"up_to": up_to, "observations": [{"domain_id": id, "sha256": sha256}]});
    let say = async |sequence: i64, report: Value| {
        let path = format!("/v1/edges/edge-1/report?session={session}&sequence={sequence}");
        let taken = ask(&kit, &kit.edge, Method::POST, &path, report).await;
        assert_eq!(taken.status, StatusCode::NO_CONTENT, "{}", taken.text());
        let domain = kit.get("/v1/domains/shop.example.com").await.expect(200);
        let edge = kit.get("/v1/edges/edge-1").await.expect(200);
        (domain["serving"]["sha256"].clone(), edge["revision"].clone())
    };
    let newest = (json!(sha256), json!("1.1"));
    assert_eq!(say(2, report("1.1", Some(&sha256))).await, newest);
    assert_eq!(say(1, report("1.0", None)).await, newest);
    // A registration anew begins another session.
    let next = register(&kit).await["session"].as_i64().unwrap();
    assert!(next > session);
    let bad = |query: &str| format!("/v1/edges/edge-1/report?{query}");
    for query in ["session=1", "sequence=1", "session=x&sequence=1", "session=1&sequence=-1"] {
        let answer = ask(&kit, &kit.edge, Method::POST, &bad(query), report("1.1", None)).await;
        answer.problem(422, "invalid-parameter");
    }
    let unknown = bad(&format!("session={}&sequence=1", i64::MAX));
    let answer = ask(&kit, &kit.edge, Method::POST, &unknown, report("1.1", None)).await;
    answer.problem(404, "edge-unknown");
}

#[tokio::test]
async fn a_late_report_restores_nothing() {
    a_late_report(plain().await).await;
}

#[tokio::test]
async fn a_late_report_restores_nothing_on_postgres() {
    a_late_report(Kit::on_postgres().await).await;
}

#[tokio::test]
async fn an_edge_learns_fetches_and_reports() {
    the_whole_walk(plain().await).await;
}

#[tokio::test]
async fn an_edge_learns_fetches_and_reports_on_postgres() {
    let kit = Kit::on_postgres_with(|settings| settings.allow_plaintext = true).await;
    the_whole_walk(kit).await;
}

/// Deploys at `other` as soon as an edge waits at `kit`, and gives what the edge is told. Its wait is over before it would look
/// unasked: unless it is woken, it is told of nothing.
async fn told_of_a_deployment(kit: &Kit, other: &Kit) -> Value {
    let name = "new.example.com";
    let id = imported(other, name, &import(name)).await["id"].as_str().unwrap().to_owned();
    let first = get(kit, "/v1/edges/edge-1/changes?after=0.0").await.expect(200);
    let (after, wait) = (first["up_to"].as_str().unwrap(), UNASKED_LOOK.as_secs() - 1);
    let path = format!("/v1/edges/edge-1/changes?after={after}&wait={wait}");
    let deployed = async {
        eventually(SOON, "the edge to wait", async || match kit.state.edges_waiting() {
            1 => Ok(()),
            count => Err(count),
        })
        .await;
        hand_out(other, &id).await;
    };
    let (told, ()) = tokio::join!(get(kit, &path), deployed);
    told.expect(200)
}

#[tokio::test]
async fn a_poll_with_nothing_new_waits_for_a_deployment() {
    let kit = plain().await;
    register(&kit).await;
    deploy(&kit, "old.example.com").await;
    let told = told_of_a_deployment(&kit, &kit).await;
    assert_eq!(told["items"][0]["name"], "new.example.com");
    assert_eq!(told["items"].as_array().unwrap().len(), 1);
}

/// The edge waits at one replica, and the certificate is committed by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_is_woken_by_a_commit_of_another_replica() {
    let (kit, other) = Kit::two_on_postgres(|settings| settings.allow_plaintext = true).await;
    register(&kit).await;
    // It hears of others from here on; that it does is a reason to wake everybody, and not the one this is about.
    kit.store.wake(Topic::Deployments).wait_for(|rung| *rung > 0).await.unwrap();
    let told = told_of_a_deployment(&kit, &other).await;
    assert_eq!(told["items"][0]["name"], "new.example.com");
}

#[tokio::test]
async fn a_poll_ends_with_its_wait_and_says_how_far_others_got() {
    let kit = plain().await;
    register(&kit).await;
    let first = get(&kit, "/v1/edges/edge-1/changes").await.expect(200);
    let body = json!({"name": "a.example.com", "edge_group": "other", "certificate": import("a.example.com")});
    kit.json(Method::POST, "/v1/domains", &body).await.expect(201);
    kit.work(Outcome::Imported, Products { deploy: true, ..Products::default() }).await;
    let path =
        format!("/v1/edges/edge-1/changes?after={}&wait=1", first["up_to"].as_str().unwrap());
    let changes = get(&kit, &path).await.expect(200);
    assert_eq!((&changes["items"], &changes["up_to"]), (&json!([]), &json!("1.1")));
}

#[tokio::test]
async fn a_shutdown_ends_polls_with_what_they_have() {
    let kit = plain().await;
    register(&kit).await;
    let first = get(&kit, "/v1/edges/edge-1/changes").await.expect(200);
    let path =
        format!("/v1/edges/edge-1/changes?after={}&wait=30", first["up_to"].as_str().unwrap());
    let waited = async { get(&kit, &path).await };
    let ended = async {
        // Any time will do: before it waits it is refused, once it waits it is answered.
        pace(Duration::from_millis(300)).await;
        kit.shutdown.cancel();
    };
    let answer =
        tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(waited, ended).0 });
    let answer = answer.await.expect("not after the whole wait");
    if answer.status == StatusCode::OK {
        assert_eq!(answer.expect(200)["items"], json!([]));
    }
    get(&kit, &path).await.problem(503, "draining");
    deploy(&kit, "shop.example.com").await;
    assert_eq!(get(&kit, &path).await.expect(200)["items"][0]["name"], "shop.example.com");
}

#[tokio::test]
async fn polls_have_a_bound() {
    let kit = plain().await;
    register(&kit).await;
    let first = get(&kit, "/v1/edges/edge-1/changes").await.expect(200);
    let path =
        format!("/v1/edges/edge-1/changes?after={}&wait=30", first["up_to"].as_str().unwrap());
    let kit = std::sync::Arc::new(kit);
    let polls: Vec<_> = (0..1025)
        .map(|_| {
            let (kit, path) = (kit.clone(), path.clone());
            tokio::spawn(async move { get(&kit, &path).await })
        })
        .collect();
    // One is too many, and is told so at once; which one is left to chance.
    let (refused, _, others) = futures_util::future::select_all(polls).await;
    let refused = refused.unwrap();
    refused.problem(503, "too-many-polls");
    assert_eq!(refused.headers[header::RETRY_AFTER], "5");
    kit.shutdown.cancel();
    for other in others {
        other.await.unwrap().expect(200);
    }
}

#[tokio::test]
async fn revisions_of_another_epoch_are_gone() {
    let kit = plain().await;
    register(&kit).await;
    deploy(&kit, "shop.example.com").await;
    get(&kit, "/v1/edges/edge-1/changes?after=7.1").await.problem(410, "revision-gone");
    get(&kit, "/v1/edges/edge-1/changes?after=1.99").await.problem(410, "revision-gone");
    deploy(&kit, "two.example.com").await;
    let page = get(&kit, "/v1/edges/edge-1/desired?limit=1").await.expect(200);
    kit.store.restored().await.unwrap();
    get(&kit, "/v1/edges/edge-1/changes?after=1.2&wait=30").await.problem(410, "revision-gone");
    let next = page["next_cursor"].as_str().unwrap();
    let path = format!("/v1/edges/edge-1/desired?limit=1&cursor={next}");
    get(&kit, &path).await.problem(410, "revision-gone");
    let anew = get(&kit, "/v1/edges/edge-1/desired").await.expect(200);
    let (epoch, _) = anew["revision"].as_str().unwrap().split_once('.').unwrap();
    assert!(epoch.parse::<i64>().unwrap() > 1, "{epoch}");
}

#[tokio::test]
async fn a_listing_keeps_the_revision_it_began_with() {
    let kit = plain().await;
    register(&kit).await;
    for name in ["a.example.com", "b.example.com", "c.example.com"] {
        deploy(&kit, name).await;
    }
    let first = get(&kit, "/v1/edges/edge-1/desired?limit=2").await.expect(200);
    assert_eq!(first["revision"], "1.3");
    deploy(&kit, "aa.example.com").await;
    let next = first["next_cursor"].as_str().unwrap();
    let path = format!("/v1/edges/edge-1/desired?limit=2&cursor={next}");
    let second = get(&kit, &path).await.expect(200);
    assert_eq!((&second["revision"], &second["next_cursor"]), (&json!("1.3"), &Value::Null));
    assert_eq!(second["items"][0]["name"], "c.example.com");
    let since = get(&kit, "/v1/edges/edge-1/changes?after=1.3").await.expect(200);
    assert_eq!(since["items"][0]["name"], "aa.example.com");
}

async fn lines(kit: &Kit) -> Vec<Value> {
    let request = asked(Method::GET, "/v1/edges/edge-1/desired", &kit.edge)
        .header(header::ACCEPT, "application/x-ndjson");
    let answer = kit.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/x-ndjson");
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_stream_ends_with_a_count_and_a_revision() {
    let kit = plain().await;
    register(&kit).await;
    assert_eq!(lines(&kit).await, [json!({"end": true, "count": 0, "revision": "1.0"})]);
    deploy(&kit, "a.example.com").await;
    deploy(&kit, "b.example.com").await;
    let lines = lines(&kit).await;
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["name"], &lines[1]["name"]),
        (&json!("a.example.com"), &json!("b.example.com"))
    );
    assert_eq!(lines[2], json!({"end": true, "count": 2, "revision": "1.2"}));
}

/// More names than are read at once, each with a certificate that has nothing real in it.
async fn deploy_many(kit: &Kit, count: usize) {
    let actor = Actor { instance: "replica".into(), name: "worker".into() };
    let new: Vec<_> = (0..count).map(|n| fake(n, &actor)).collect();
    for added in kit.store.add_many(&new).await.unwrap() {
        added.unwrap();
    }
    let limit = u32::try_from(count).unwrap();
    let batch = kit.store.claim(&worker(), limit, Duration::from_secs(300)).await.unwrap();
    let commits = batch.work.iter().map(|claimed| {
        let commit = Commit {
            transition: decide(&claimed.domain, &Outcome::Imported, &Policy::default(), batch.now),
            products: Products { deploy: true, ..Products::default() },
            answers_request: false,
            keep_claim: false,
            actor: actor.clone(),
        };
        async move { kit.store.commit(claimed, &commit).await.unwrap() }
    });
    assert_eq!(futures_util::future::join_all(commits).await.len(), count);
}

fn fake(n: usize, actor: &Actor) -> NewDomain {
    let summary = CertificateSummary {
        serial: n.to_string(),
        sha256: format!("{n:064x}"),
        not_before: Timestamp::from_seconds(1_700_000_000),
        not_after: Timestamp::from_seconds(4_000_000_000),
        issuer: "Test CA".to_owned(),
        directory: "imported".to_owned(),
    };
    let (chain_pem, key) = ("chain".to_owned(), Secret::from("key".to_owned()));
    NewDomain {
        id: DomainId::new(),
        name: Hostname::parse(&format!("n{n:05}.example.com")).unwrap(),
        tenant: None,
        resource: None,
        target: Hostname::parse("edge.example.net").unwrap(),
        target_given: false,
        edge_group: "default".to_owned(),
        labels: std::collections::BTreeMap::new(),
        orchestration_id: format!("o{n}"),
        import: Some(Import { certificate: NewCertificate { chain_pem, key, summary } }),
        actor: actor.clone(),
    }
}

#[tokio::test]
async fn a_long_stream_has_everything_once() {
    let kit = plain().await;
    register(&kit).await;
    deploy_many(&kit, 2_345).await;
    let mut lines = lines(&kit).await;
    let end = lines.pop().unwrap();
    assert_eq!(end, json!({"end": true, "count": 2_345, "revision": "1.2345"}));
    let names = lines.iter().map(|line| line["name"].as_str().unwrap());
    let expected: Vec<_> = (0..2_345).map(|n| format!("n{n:05}.example.com")).collect();
    assert!(names.eq(expected.iter().map(String::as_str)));
}

#[tokio::test]
async fn a_token_is_for_one_edge_and_one_group() {
    let kit = plain().await;
    register(&kit).await;
    for (method, path) in [
        (Method::PUT, "/v1/edges/edge-2"),
        (Method::GET, "/v1/edges/edge-2/changes"),
        (Method::GET, "/v1/edges/edge-2/desired"),
        (Method::GET, "/v1/edges/edge-2/bundles/00"),
        (Method::POST, "/v1/edges/edge-2/report"),
    ] {
        ask(&kit, &kit.edge, method, path, json!({})).await.problem(403, "wrong-edge");
    }
    let other = json!({"group": "other"});
    ask(&kit, &kit.edge, Method::PUT, "/v1/edges/edge-1", other).await.problem(403, "wrong-group");
    for path in ["/v1/edges/edge-1/changes", "/v1/edges/edge-1/desired"] {
        ask(&kit, &kit.read, Method::GET, path, Value::Null).await.problem(403, "forbidden");
        ask(&kit, "hf_none", Method::GET, path, Value::Null).await.problem(401, "unauthorized");
    }
}

async fn notices(kit: &Kit) -> Vec<(String, String, String)> {
    let events =
        kit.store.events_after(holdfast_store::EventCursor::default(), 1000).await.unwrap();
    let notices = events.into_iter().filter_map(|event| match event.body {
        holdfast_store::EventBody::Notice { kind, subject, .. } => {
            Some((event.actor.name, kind, subject))
        }
        holdfast_store::EventBody::Transition { .. } => None,
    });
    notices.collect()
}

async fn crossing_groups(kit: Kit) {
    register(&kit).await;
    let stranger = token_for(&kit, "nyc-1", "us").await;
    ask(&kit, &stranger, Method::PUT, "/v1/edges/nyc-1", json!({})).await.expect(200);
    let (id, sha256) = deploy(&kit, "shop.example.com").await;
    let path = format!("/v1/edges/nyc-1/bundles/{sha256}");
    for _ in 0..3 {
        let refused = ask(&kit, &stranger, Method::GET, &path, Value::Null).await;
        let problem = refused.problem(403, "wrong-group");
        assert!(!problem.to_string().contains("PRIVATE KEY"));
    }
    let refusals: Vec<_> =
        notices(&kit).await.into_iter().filter(|(_, kind, _)| kind == "edge-refused").collect();
    let expected = ("nyc-1-token".to_owned(), "edge-refused".to_owned(), "nyc-1".to_owned());
    assert_eq!(refusals, [expected], "audited, and not once per request");
    // What it claims to have seen of others' domains is not heard.
    let seen = json!({"up_to": "1.1", "observations": [{"domain_id": id, "sha256": sha256}]});
    let taken = ask(&kit, &stranger, Method::POST, "/v1/edges/nyc-1/report", seen).await;
    assert_eq!(taken.status, StatusCode::NO_CONTENT, "{}", taken.text());
    let domain = kit.get("/v1/domains/shop.example.com").await.expect(200);
    assert_eq!(domain["serving"], Value::Null);
    ask(&kit, &stranger, Method::GET, "/v1/edges/edge-1", Value::Null)
        .await
        .problem(403, "wrong-group");
}

#[tokio::test]
async fn what_is_anothers_is_refused_and_written_down() {
    crossing_groups(plain().await).await;
}

#[tokio::test]
async fn what_is_anothers_is_refused_and_written_down_on_postgres() {
    crossing_groups(Kit::on_postgres_with(|settings| settings.allow_plaintext = true).await).await;
}

#[tokio::test]
async fn who_has_not_registered_is_told_to() {
    let kit = plain().await;
    for path in ["changes", "desired", "bundles/00"] {
        get(&kit, &format!("/v1/edges/edge-1/{path}")).await.problem(404, "edge-unknown");
    }
    let report = json!({"up_to": "0.0"});
    let answer = ask(&kit, &kit.edge, Method::POST, "/v1/edges/edge-1/report", report).await;
    answer.problem(404, "edge-unknown");
    register(&kit).await;
    let moved = token_for(&kit, "edge-1", "moved").await;
    let path = "/v1/edges/edge-1/changes";
    ask(&kit, &moved, Method::GET, path, Value::Null).await.problem(404, "edge-unknown");
    let anew = ask(&kit, &moved, Method::PUT, "/v1/edges/edge-1", json!({})).await.expect(200);
    assert_eq!(anew["group"], "moved");
    ask(&kit, &moved, Method::GET, path, Value::Null).await.expect(200);
}

#[tokio::test]
async fn keys_do_not_leave_over_plain_http_to_edges_either() {
    let kit = Kit::new().await;
    register(&kit).await;
    let (_, sha256) = deploy(&kit, "shop.example.com").await;
    let path = format!("/v1/edges/edge-1/bundles/{sha256}");
    get(&kit, &path).await.problem(403, "plaintext-refused");
}

#[tokio::test]
async fn a_bundle_one_has_is_not_sent_and_one_that_is_not_there_not_found() {
    let kit = plain().await;
    register(&kit).await;
    let (id, sha256) = deploy(&kit, "shop.example.com").await;
    let path = format!("/v1/edges/edge-1/bundles/{sha256}?domain_id={id}");
    let request =
        asked(Method::GET, &path, &kit.edge).header(header::IF_NONE_MATCH, format!("\"{sha256}\""));
    let same = kit.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!((same.status, same.body.len()), (StatusCode::NOT_MODIFIED, 0));
    get(&kit, &format!("/v1/edges/edge-1/bundles/{}", "0".repeat(64)))
        .await
        .problem(404, "not-found");
    get(&kit, "/v1/edges/edge-1/bundles/xyz?domain_id=7").await.problem(422, "invalid-parameter");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_by_name() {
    let kit = plain().await;
    register(&kit).await;
    for (query, code) in [
        ("after=1", "invalid-parameter"),
        ("after=01.2", "invalid-parameter"),
        ("wait=31", "invalid-parameter"),
        ("limit=0", "invalid-parameter"),
        ("before=1.1", "unknown-parameter"),
    ] {
        get(&kit, &format!("/v1/edges/edge-1/changes?{query}")).await.problem(422, code);
    }
    get(&kit, "/v1/edges/edge-1/desired?cursor=eA").await.problem(422, "invalid-cursor");
    for (report, code) in [
        (json!({}), "invalid-body"),
        (json!({"up_to": "x"}), "invalid-field"),
        (json!({"up_to": "1.1", "mode": "sleep"}), "invalid-field"),
        (json!({"up_to": "1.1", "observations": [{"domain_id": "x"}]}), "invalid-field"),
        (json!({"up_to": "1.1", "seen": []}), "unknown-field"),
    ] {
        let answer = ask(&kit, &kit.edge, Method::POST, "/v1/edges/edge-1/report", report).await;
        answer.problem(422, code);
    }
}
