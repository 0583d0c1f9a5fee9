//! Edges that go: removed by a person, moved to another group; and words of edges that are not theirs to say.

use holdfast_model::{DomainId, Note, Outcome, State};
use holdfast_store::{
    Adopt, Adopted, Adoption, EdgeReport, EventBody, EventCursor, NewToken, Observation, Page,
    Revision, Scope, SharedStore, Stranger,
};

use crate::{
    edge::{deploying, edge, see},
    kit::*,
    raw::Raw,
    stranger::find,
};

on_both! {
    a_removed_edge_is_forgotten_with_all_it_said,
    its_tokens_end_and_no_others,
    what_waited_for_it_is_due,
    back_in_its_group_it_was_seen_serving_nothing,
    a_report_for_another_group_is_not_heard,
    a_future_that_was_lost_was_not_applied,
    a_refusal_stays_with_the_group,
    what_nobody_asked_for_is_not_ended,
}

raw_on_both! {
    nothing_of_it_stays_behind,
    however_much_it_was_seen_serving_it_is_gone_at_once,
}

fn all() -> Page {
    Page { limit: 100, after: None }
}

fn stranger(names: &[&str]) -> Stranger {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Stranger { file: "/old.pem".to_owned(), names, sha256: None, shadows: true }
}

async fn notices(store: &SharedStore, of: &str) -> Vec<(String, String, String)> {
    let events = store.events_after(EventCursor::default(), 1_000).await.unwrap();
    let notices = events.into_iter().filter_map(|event| match event.body {
        EventBody::Notice { kind, subject, detail } if kind == of => {
            Some((event.actor.name, subject, detail))
        }
        _ => None,
    });
    notices.collect()
}

async fn a_removed_edge_is_forgotten_with_all_it_said(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let e1 = edge(&store, "e1", "default").await;
    see(&store, e1.id, domain.id, None, Some(Note::new("edge-refused", "no room"))).await;
    find(&store, e1.id, &[stranger(&["shop.example.com"])]).await;
    assert_eq!(store.adopt(e1.id, &Adopt::All, &actor()).await.unwrap().len(), 1);

    let removed = store.remove_edge("e1", &actor()).await.unwrap().unwrap();
    assert_eq!((removed.group.as_str(), removed.tokens.len()), ("default", 0));
    assert!(store.edges().await.unwrap().is_empty());
    assert!(store.edge_identity("e1").await.unwrap().is_none());
    assert!(store.refusals(e1.id, &all()).await.unwrap().items.is_empty());
    assert!(store.strangers(e1.id, &all()).await.unwrap().items.is_empty());
    assert!(store.adoptions(e1.id).await.unwrap().is_empty());
    assert!(store.observe(e1.id, &EdgeReport::default(), &actor()).await.is_err());
    assert_eq!(store.deployment(domain.id).await.unwrap().live, 0);
    let told = notices(&store, "edge-removed").await;
    assert_eq!((told.len(), told[0].1.as_str()), (1, "e1"), "{told:?}");
    assert_eq!(told[0].0, actor().name);

    assert!(store.remove_edge("e1", &actor()).await.unwrap().is_none(), "there is none any more");
    assert_eq!(notices(&store, "edge-removed").await.len(), 1);
    let back = edge(&store, "e1", "default").await;
    assert_ne!(back.id, e1.id);
    assert_eq!((back.revision, back.behind, back.refusals), (Revision::default(), 1, 0));
}

async fn token(store: &SharedStore, name: &str, scope: Scope, edge: Option<&str>, hash: u8) {
    let new = NewToken {
        name: name.to_owned(),
        scope,
        hash: [hash; 32],
        edge: edge.map(str::to_owned),
        group: edge.map(|_| "default".to_owned()),
    };
    store.keep_token(&new).await.unwrap();
}

async fn its_tokens_end_and_no_others(store: SharedStore) {
    edge(&store, "e1", "default").await;
    edge(&store, "e2", "default").await;
    token(&store, "one", Scope::Edge, Some("e1"), 1).await;
    token(&store, "two", Scope::Edge, Some("e1"), 2).await;
    token(&store, "other", Scope::Edge, Some("e2"), 3).await;
    token(&store, "admin", Scope::Admin, None, 4).await;
    let mut removed = store.remove_edge("e1", &actor()).await.unwrap().unwrap();
    removed.tokens.sort();
    assert_eq!(removed.tokens, ["one", "two"]);
    for (hash, works) in [(1, false), (2, false), (3, true), (4, true)] {
        assert_eq!(store.token(&[hash; 32]).await.unwrap().is_some(), works, "{hash}");
    }
    let told = notices(&store, "edge-removed").await;
    assert!(told[0].2.contains("one") && told[0].2.contains("two"), "{told:?}");
    // A token made since is a new one.
    token(&store, "three", Scope::Edge, Some("e1"), 5).await;
    assert_eq!(store.edge_token("e1").await.unwrap().unwrap().name, "three");
}

/// Two edges, of which one died while it was applying: the other has shown it, and the first is not waited for.
async fn what_waited_for_it_is_due(store: SharedStore) {
    let claimed = deploying(&store, "shop.example.com", "1").await;
    let id = claimed.domain.id;
    let seen = edge(&store, "e1", "default").await.id;
    edge(&store, "e2", "default").await;
    see(&store, seen, id, Some("sha-1"), None).await;
    let note = || Note::new("edges-applying", "1 of 2 live edges are applying");
    // Looked at since the report came: now it waits.
    finish(&store, &claimed, Outcome::DeploymentPending { note: note() }).await;
    let again = claim_one(&store, &claimant("w")).await;
    finish(&store, &again, Outcome::DeploymentPending { note: note() }).await;
    assert!(claim_all(&store, &claimant("w")).await.is_empty());
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.live, status.behind, status.serving), (2, 1, 1));

    store.remove_edge("e2", &actor()).await.unwrap().unwrap();
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.live, status.behind, status.serving), (1, 0, 1));
    let due = claim_one(&store, &claimant("w")).await;
    assert_eq!((due.domain.id, due.domain.state), (id, State::CertificateDeploying));
}

async fn back_in_its_group_it_was_seen_serving_nothing(store: SharedStore) {
    let claimed = deploying(&store, "shop.example.com", "1").await;
    let id = claimed.domain.id;
    let first = edge(&store, "e1", "default").await.id;
    see(&store, first, id, Some("sha-1"), None).await;
    assert_eq!(store.deployment(id).await.unwrap().serving, 1);
    // It dropped everything of its group when it moved.
    edge(&store, "e1", "eu").await;
    assert_eq!(store.deployment(id).await.unwrap().live, 0);
    edge(&store, "e1", "default").await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.live, status.behind, status.serving), (1, 1, 0));
}

async fn a_report_for_another_group_is_not_heard(store: SharedStore) {
    let claimed = deploying(&store, "shop.example.com", "1").await;
    let id = claimed.domain.id;
    let note = Note::new("edges-applying", "not yet");
    finish(&store, &claimed, Outcome::DeploymentPending { note }).await;
    assert!(claim_all(&store, &claimant("w")).await.is_empty());
    let foreign = edge(&store, "us-1", "us").await.id;
    see(&store, foreign, id, None, Some(Note::new("edge-refused", "I say so"))).await;
    assert!(claim_all(&store, &claimant("w")).await.is_empty(), "nobody was woken by it");
    let refusals = store.refusals(foreign, &all()).await.unwrap();
    assert!(refusals.items.is_empty(), "an edge learns no name of another group");
    assert_eq!(store.edge_named("us-1").await.unwrap().unwrap().refusals, 0);
    see(&store, foreign, id, Some("sha-1"), None).await;
    // Nor once it is of that group: nothing was seen there.
    edge(&store, "us-1", "default").await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.behind, status.serving, status.seen), (1, 0, None));
}

/// As after a backup was restored and before `holdfast restored`: the edge has applied numbers that are yet to be given.
async fn a_future_that_was_lost_was_not_applied(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let e1 = edge(&store, "e1", "default").await.id;
    let latest = store.latest_revision().await.unwrap();
    let up_to = Revision { number: latest.number + 100, ..latest };
    let report = EdgeReport { up_to, ..EdgeReport::default() };
    store.observe(e1, &report, &actor()).await.unwrap();
    let e = store.edge_named("e1").await.unwrap().unwrap();
    assert_eq!((e.revision.number, e.behind, e.live), (0, 1, true));
    // The name goes, and the edge has not dropped it, whatever it says.
    store.remove(domain.id, false, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    store.begin_teardown(&claimed).await.unwrap();
    store.observe(e1, &report, &actor()).await.unwrap();
    let status = store.deployment(domain.id).await.unwrap();
    assert_eq!((status.tombstone, status.live, status.behind), (true, 1, 1));
    let up_to = store.latest_revision().await.unwrap();
    store.observe(e1, &EdgeReport { up_to, ..EdgeReport::default() }, &actor()).await.unwrap();
    assert_eq!(store.deployment(domain.id).await.unwrap().behind, 0);
}

async fn a_refusal_stays_with_the_group(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let e1 = edge(&store, "e1", "default").await.id;
    see(&store, e1, domain.id, None, Some(Note::new("edge-refused", "no room"))).await;
    assert_eq!(store.edge_named("e1").await.unwrap().unwrap().refusals, 1);
    let patch = holdfast_store::DomainPatch {
        edge_group: Some("eu".to_owned()),
        ..holdfast_store::DomainPatch::default()
    };
    store.patch(domain.id, None, &patch, &actor()).await.unwrap();
    assert_eq!(store.edge_named("e1").await.unwrap().unwrap().refusals, 0);
    assert!(store.refusals(e1, &all()).await.unwrap().items.is_empty());
    // Of a domain nobody knows it may say what it likes.
    let unknown = Observation { domain: DomainId::new(), sha256: None, error: None };
    let report = EdgeReport { observations: vec![unknown], ..EdgeReport::default() };
    store.observe(e1, &report, &actor()).await.unwrap();
}

async fn what_nobody_asked_for_is_not_ended(store: SharedStore) {
    active(&store, "shop.example.com", "1").await;
    let e1 = edge(&store, "e1", "default").await.id;
    find(&store, e1, &[stranger(&["shop.example.com"])]).await;
    let asked = store.adopt(e1, &Adopt::All, &actor()).await.unwrap();
    let other = Adoption { file: "/other.pem".to_owned(), ..asked[0].clone() };
    let said = |adoption: &Adoption| Adopted { adoption: adoption.clone(), error: None };
    let adopted = vec![said(&asked[0]), said(&other), said(&asked[0])];
    let report = EdgeReport { adopted, ..EdgeReport::default() };
    for _ in 0..2 {
        store.observe(e1, &report, &actor()).await.unwrap();
        let told = notices(&store, "edge-adopted").await;
        assert_eq!(told.len(), 1, "once: {told:?}");
        assert_eq!(
            told[0],
            (actor().name, "shop.example.com".into(), "edge `e1` took over /old.pem".into())
        );
    }
}

/// Neither of one that was removed nor of one that moved: rows that nobody reads would stay for ever.
async fn nothing_of_it_stays_behind(raw: Raw) {
    let store = raw.store.clone();
    let domain = active(&store, "shop.example.com", "1").await;
    for name in ["removed", "moved"] {
        let e = edge(&store, name, "default").await.id;
        see(&store, e, domain.id, Some("sha-1"), None).await;
        store.open_session(e).await.unwrap();
        find(&store, e, &[stranger(&["shop.example.com"])]).await;
        assert_eq!(store.adopt(e, &Adopt::All, &actor()).await.unwrap().len(), 1);
    }
    store.remove_edge("removed", &actor()).await.unwrap().unwrap();
    edge(&store, "moved", "us").await;
    while store.forget_departed(None, 1).await.unwrap().is_some() {}
    for table in
        ["observation", "stranger", "adoption", "adoption_refusal", "edge_session", "departed_edge"]
    {
        let left = raw.number(&format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(left, 0, "{table}");
    }
    assert_eq!(raw.number("SELECT count(*) FROM edge").await, 1);
}

/// The edge was seen serving something for all of these domains.
async fn seen_serving(raw: &Raw, edge: &str, domains: &str) {
    raw.execute(&format!(
        "INSERT INTO observation (domain_id, edge_id, seen_at)
         SELECT d.id, e.id, e.registered_at FROM ({domains}) d, edge e WHERE e.name = '{edge}'"
    ))
    .await;
}

/// Both were seen serving thousands of names. What one of them was is forgotten in parts, though whoever does it is killed or stopped on the way.
async fn however_much_it_was_seen_serving_it_is_gone_at_once(raw: Raw) {
    let id = deploying(&raw.store, "shop.example.com", "1").await.domain.id;
    let gone = edge(&raw.store, "gone", "default").await.id;
    let stays = edge(&raw.store, "stays", "default").await.id;
    see(&raw.store, gone, id, Some("sha-1"), None).await;
    see(&raw.store, stays, id, Some("sha-1"), None).await;
    let numbers = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 4000)";
    seen_serving(&raw, "gone", &format!("{numbers} SELECT {} AS id FROM n", raw.some_id())).await;
    seen_serving(&raw, "stays", "SELECT domain_id AS id FROM observation WHERE sha256 IS NULL")
        .await;
    let seen = async |raw: &Raw| raw.number("SELECT count(*) FROM observation").await;
    assert_eq!(seen(&raw).await, 8_002);

    raw.store.remove_edge("gone", &actor()).await.unwrap().unwrap();
    // From the first moment on, and though one of its name comes back.
    let counted = async |raw: &Raw| {
        let status = raw.store.deployment(id).await.unwrap();
        (status.live, status.serving)
    };
    assert_eq!(counted(&raw).await, (1, 1));
    edge(&raw.store, "gone", "default").await;
    assert_eq!(counted(&raw).await, (2, 1));

    let raw = raw.killed_while("forgets_what_was_seen").await;
    let after_the_kill = seen(&raw).await;
    assert!(after_the_kill < 8_002 && after_the_kill > 4_001, "{after_the_kill}");
    for pace in 0..20 {
        let store = raw.store.clone();
        let stopped = tokio::spawn(async move { store.forget_departed(None, 50).await });
        for _ in 0..pace {
            tokio::task::yield_now().await;
        }
        stopped.abort();
        stopped.await.ok();
    }
    assert_eq!(counted(&raw).await, (2, 1));
    while raw.store.forget_departed(None, 500).await.unwrap().is_some() {}
    assert_eq!(seen(&raw).await, 4_001);
    assert_eq!(raw.number("SELECT count(*) FROM departed_edge").await, 0);
    assert_eq!(counted(&raw).await, (2, 1));
}
