//! Two replicas with real leases on one PostgreSQL: what their health says, and whose the writes are.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_cluster::{Backend, Cluster, Options, Role, Settings as ClusterSettings};
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_server::{AppState, Guard, Settings, Writes, router, serve, token};
use holdfast_store::{
    EventBody, EventCursor, MasterKey, NewToken, OpenOptions, Scope, SharedStore, open,
};
use holdfast_testkit::{Postgres, eventually};
use http::{Request, header};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::kit::{World, settings};

const SOON: Duration = Duration::from_secs(60);

struct Member {
    url: String,
    cluster: Cluster,
    store: SharedStore,
    stop: CancellationToken,
}

async fn member(database: &str, key: &MasterKey, instance: &str) -> Member {
    let store = open(database, Some(key.clone()), OpenOptions::default()).await.unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", tcp.local_addr().unwrap());
    let cluster = Cluster::join(ClusterSettings {
        store: store.clone(),
        instance: instance.to_owned(),
        url: url.clone(),
        role: Role::All,
        version: "test".to_owned(),
        backend: Backend::new(database, None).unwrap(),
        leadership: "holdfast".to_owned(),
        options: Options::with_lease(Duration::from_secs(6), Duration::from_secs(2)),
        heartbeat: Duration::from_secs(1),
        stale: Duration::from_secs(3),
        prune: Duration::from_secs(10),
    });
    let (cluster, stop) = (cluster.await.unwrap(), CancellationToken::new());
    tokio::spawn({
        let (cluster, store, stop) = (cluster.clone(), store.clone(), stop.clone());
        async move { cluster.run(&store, Vec::new(), stop).await }
    });
    let open = CancellationToken::new();
    let state = AppState::new(Settings {
        instance: instance.to_owned(),
        guard: Guard::new(Writes::Forward, Arc::new(cluster.clone()), None).unwrap(),
        cluster: cluster.clone(),
        ..settings(store.clone(), Arc::new(World::default()), open.clone())
    });
    tokio::spawn(serve(tcp, router(state), open, Duration::ZERO));
    Member { url, cluster, store, stop }
}

async fn ask(request: Request<Bytes>) -> (u16, Value) {
    let client = Client::new(ClientConfig::default()).unwrap();
    let answer = client.send(request).await.unwrap();
    (answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap_or(Value::Null))
}

async fn health(member: &Member) -> (u16, Value) {
    ask(Request::get(format!("{}/health", member.url)).body(Bytes::new()).unwrap()).await
}

/// Adds a domain, however often one is told to come again.
async fn add(member: &Member, admin: &str, name: &str) {
    eventually(SOON, "a leader", async || {
        let request = Request::post(format!("{}/v1/domains", member.url))
            .header(header::AUTHORIZATION, format!("Bearer {admin}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Bytes::from(json!({ "name": name }).to_string()));
        match ask(request.unwrap()).await {
            (201, _) => Ok(()),
            (421 | 503, problem) => Err(problem),
            other => panic!("{other:?}"),
        }
    })
    .await;
}

async fn accepted_by(store: &SharedStore, wanted: &str) -> String {
    eventually(SOON, "the event", async || {
        let events = store.events_after(EventCursor::default(), 1_000).await.unwrap();
        let by = events.into_iter().find_map(|event| match event.body {
            EventBody::Transition { name, from: None, .. } if name.as_str() == wanted => {
                Some(event.actor.instance)
            }
            _ => None,
        });
        by.ok_or("not yet")
    })
    .await
}

async fn admin(store: &SharedStore) -> String {
    let admin = token::mint().unwrap();
    let (name, hash) = ("admin".to_owned(), token::hash(&admin));
    let new = NewToken { name, scope: Scope::Admin, hash, edge: None, group: None };
    store.keep_token(&new).await.unwrap();
    admin
}

async fn leads(member: &Member) {
    let leads = async || if member.cluster.is_leader() { Ok(()) } else { Err("not yet") };
    eventually(SOON, "the leadership", leads).await;
}

/// The notices of an event stream, as somebody reads it who has been there from the beginning, until this one.
async fn notices_until(member: &Member, token: &str, last: (&str, &str)) -> Vec<(String, String)> {
    let address = member.url.strip_prefix("http://").unwrap();
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    let request = format!(
        "GET /v1/events?after=0-0 HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut notices, mut line) = (Vec::new(), String::new());
    let read = async {
        while stream.read_line(&mut line).await.unwrap() > 0 {
            let data = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok());
            let data: Value = data.unwrap_or_default();
            let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
            if data["kind"].is_string() {
                notices.push((text("kind"), text("instance")));
            }
            if (text("kind").as_str(), text("instance").as_str()) == last {
                break;
            }
            line.clear();
        }
    };
    timeout(SOON, read).await.expect("the notice");
    notices
}

/// Whoever reads the stream of any replica is told who leads from when on, in order, also of what happened before it came.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_leader_are_in_the_event_stream() {
    let database = Postgres::shared().await.unwrap().database().await.unwrap();
    let key = MasterKey::generate().unwrap();
    let a = member(&database, &key, "a").await;
    leads(&a).await;
    let b = member(&database, &key, "b").await;
    let admin = admin(&a.store).await;
    a.stop.cancel();
    leads(&b).await;
    for reader in [&a, &b] {
        let told = notices_until(reader, &admin, ("leader-elected", "b")).await;
        let leading = told.iter().filter(|(kind, _)| kind.starts_with("leader-"));
        let leading: Vec<_> = leading.map(|(kind, who)| (kind.as_str(), who.as_str())).collect();
        let elected = [("leader-elected", "a"), ("leader-elected", "b")];
        let first: Vec<_> = leading.iter().filter(|(kind, _)| *kind == "leader-elected").collect();
        assert_eq!(first, elected.iter().collect::<Vec<_>>(), "{leading:?}");
    }
    b.cluster.release("holdfast", "a test").await.unwrap();
    let told = notices_until(&a, &admin, ("leader-lost", "b")).await;
    assert!(told.contains(&("leader-stepped-down".to_owned(), "a".to_owned())), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_the_leaders_whoever_that_is_and_a_follower_is_in_good_order() {
    let database = Postgres::shared().await.unwrap().database().await.unwrap();
    let key = MasterKey::generate().unwrap();
    let a = member(&database, &key, "a").await;
    eventually(
        SOON,
        "a leads",
        async || if a.cluster.is_leader() { Ok(()) } else { Err("not yet") },
    )
    .await;
    let b = member(&database, &key, "b").await;
    let admin = admin(&a.store).await;
    add(&b, &admin, "one.example.com").await;
    assert_eq!(accepted_by(&a.store, "one.example.com").await, "a");
    let (status, leader) = health(&a).await;
    assert_eq!((status, &leader["results"]["leader_election"]["status"]), (200, &json!("Healthy")));
    let (status, follower) = health(&b).await;
    assert_eq!((status, &follower["status"]), (200, &json!("Healthy")), "{follower}");
    let election = &follower["results"]["leader_election"];
    assert_eq!(election["status"], "Degraded", "{follower}");
    assert_eq!(election["data"]["is_leader"], json!(false));
    assert_eq!(election["data"]["leader"], "a");
    a.stop.cancel();
    eventually(
        SOON,
        "b leads",
        async || if b.cluster.is_leader() { Ok(()) } else { Err("not yet") },
    )
    .await;
    add(&b, &admin, "two.example.com").await;
    assert_eq!(accepted_by(&b.store, "two.example.com").await, "b");
    // The one that led does not any more, and knows it.
    add(&a, &admin, "three.example.com").await;
    assert_eq!(accepted_by(&b.store, "three.example.com").await, "b");
}
