//! The feed where a single replica takes all writes: an edge may talk to any replica, with its token or its certificate.
//!
//! What an edge says is what it saw. It asks for nothing and decides nothing, so it is not passed on: the leader would have to
//! carry every edge's signs of life, and a certificate shown to one replica cannot be shown to the next.

use std::sync::Arc;
use std::time::Duration;

use holdfast_cluster::Master;
use holdfast_gateway::listener::{TlsListener, server_config};
use holdfast_server::{AppState, Door, Guard, Leadership, Settings, Writes, router, serve};
use holdfast_testkit::Pki;
use http::{Method, StatusCode};
use serde_json::json;
use tokio::net::TcpListener;

use crate::certificate::{Clients, ask};
use crate::kit::{Kit, asked, settings};

/// One that follows a leader nobody can reach: whatever is passed on is lost.
struct Follower(Option<&'static str>);

impl Leadership for Follower {
    fn instance(&self) -> &str {
        "follower"
    }

    fn term(&self) -> Option<u64> {
        None
    }

    fn master(&self) -> Option<Master> {
        let url = self.0?.to_owned();
        Some(Master { instance_id: "leader".into(), url, term: 7 })
    }
}

fn guarded(writes: Writes, leader: Option<&'static str>) -> impl FnOnce(&mut Settings) {
    move |settings| {
        settings.allow_plaintext = true;
        settings.guard = Guard::new(writes, Arc::new(Follower(leader)), None).unwrap();
    }
}

const MODES: [Writes; 4] = [Writes::Any, Writes::Forward, Writes::Redirect, Writes::Reject];

#[tokio::test]
async fn a_follower_hears_edges_itself() {
    for writes in MODES {
        for leader in [Some("http://127.0.0.1:1"), None] {
            let kit = Kit::with(guarded(writes, leader)).await;
            let send = async |method: Method, path: &str, body: serde_json::Value| {
                let request = asked(method, path, &kit.edge)
                    .header(http::header::CONTENT_TYPE, "application/json")
                    .body(axum::body::Body::from(body.to_string()));
                kit.send(request.unwrap()).await.status
            };
            let edge = "/v1/edges/edge-1";
            assert_eq!(send(Method::PUT, edge, json!({})).await, StatusCode::OK, "{writes:?}");
            let report = format!("{edge}/report");
            let sent = send(Method::POST, &report, json!({"up_to": "1.0"})).await;
            assert_eq!(sent, StatusCode::NO_CONTENT, "{writes:?}");
        }
    }
}

/// What people want of edges is a write like any other.
#[tokio::test]
async fn what_people_ask_of_edges_is_guarded() {
    let kit = Kit::with(guarded(Writes::Reject, Some("http://127.0.0.1:1"))).await;
    crate::feed::register(&kit).await;
    kit.call(Method::DELETE, "/v1/edges/edge-1").await.problem(421, "not-master");
    let body = json!({"all": true});
    let adopt = kit.json(Method::POST, "/v1/edges/edge-1/adopt", &body).await;
    adopt.problem(421, "not-master");
    // Nor is a path that only looks like the feed's.
    kit.json(Method::PUT, "/v1/claims/report", &json!({"orchestration_id": "o"}))
        .await
        .problem(421, "not-master");
}

#[tokio::test]
async fn a_follower_hears_edges_that_show_a_certificate() {
    let kit = Kit::new().await;
    let (pki, clients) = (Pki::new().unwrap(), Clients::new());
    let settings = {
        let mut own = settings(kit.store.clone(), kit.world.clone(), kit.shutdown.clone());
        guarded(Writes::Forward, Some("https://127.0.0.1:1"))(&mut own);
        own
    };
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let authority = clients.pem();
    let config =
        server_config(pki.chain_pem.as_bytes(), pki.key_pem.as_bytes(), Some(authority.as_bytes()));
    let door = Door::from(TlsListener::new(tcp, config.unwrap()));
    let own = router(AppState::new(settings));
    tokio::spawn(serve(door, own, kit.shutdown.clone(), Duration::ZERO));
    let root = clients.root(&pki);
    let edge = clients.client("edge:edge-1", None);
    let sent = async |method: &str, path: &str, body: &str| {
        let url = format!("https://localhost:{port}/v1/edges/edge-1{path}");
        ask(url, root.clone(), edge.clone(), &[method, body]).await
    };
    let registered = sent("PUT", "", "{}").await;
    assert!(registered.ends_with(" 200"), "{registered}");
    let reported = sent("POST", "/report", r#"{"up_to": "1.0"}"#).await;
    assert!(reported.ends_with(" 204"), "{reported}");
    assert!(kit.store.edge_named("edge-1").await.unwrap().unwrap().live);
}
