//! Edges that complain of themselves as a whole: nobody waits for them, and what waits is woken when that begins or ends.

use holdfast_model::{Note, Outcome};
use holdfast_store::{Claimed, EdgeId, EdgeReport, PROXY_DOWN, SharedStore};

use crate::edge::{deploying, edge, see};
use crate::kit::*;

on_both! {
    an_edge_that_complains_of_itself_is_not_waited_for,
    what_was_seen_before_a_proxy_went_away_is_not_served,
    a_complaint_that_begins_or_ends_wakes_what_waits,
    a_registration_ends_a_complaint_and_wakes_what_waits,
    an_edge_out_of_order_does_not_hold_up_a_removal,
}

/// A sign of life that says this of the edge as a whole, if anything.
async fn complain(store: &SharedStore, edge: EdgeId, code: Option<&str>) {
    let error = code.map(|code| Note::new(code.to_owned(), "its words"));
    let report = EdgeReport { error, ..EdgeReport::default() };
    store.observe(edge, &report, &actor()).await.unwrap();
}

/// Where two edges are to serve a name, and the first was seen to.
async fn half_served(store: &SharedStore) -> (Claimed, EdgeId, EdgeId) {
    let claimed = deploying(store, "shop.example.com", "1").await;
    let (e1, e2) = (edge(store, "e1", "default").await.id, edge(store, "e2", "default").await.id);
    see(store, e1, claimed.domain.id, Some("sha-1"), None).await;
    (claimed, e1, e2)
}

async fn an_edge_that_complains_of_itself_is_not_waited_for(store: SharedStore) {
    let (claimed, e1, e2) = half_served(&store).await;
    let id = claimed.domain.id;
    for code in [
        "edge-reload-failed",
        "edge-crt-list-unknown",
        "edge-transaction-locked",
        "edge-certificates-locked",
        "edge-proxy-unreachable",
        "edge-disk",
        "listing-shrank",
    ] {
        complain(&store, e2, Some(code)).await;
        let status = store.deployment(id).await.unwrap();
        assert_eq!((status.live, status.behind, status.serving), (2, 0, 1), "{code}");
        assert_eq!(status.broken, [("e2".to_owned(), Note::new(code, "its words"))]);
        assert!(status.refused.is_empty());
        // What is served as desired is served, whatever else ails the edge.
        complain(&store, e1, Some(code)).await;
        assert_eq!(store.deployment(id).await.unwrap().serving, 1, "{code}");
        // Mended, it is waited for.
        complain(&store, e2, None).await;
        assert_eq!(store.deployment(id).await.unwrap().behind, 1, "{code}");
    }
}

async fn what_was_seen_before_a_proxy_went_away_is_not_served(store: SharedStore) {
    let (claimed, e1, e2) = half_served(&store).await;
    let id = claimed.domain.id;
    complain(&store, e1, Some(PROXY_DOWN)).await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.live, status.behind, status.serving), (2, 1, 0));
    assert_eq!(status.broken[0].0, "e1");
    assert_eq!(status.seen, None, "nothing is seen where no proxy answers");
    // That it could not be looked at by the same edge is told with the edge, not as a refusal of the name.
    see(&store, e1, id, None, Some(Note::new("edge-handshake-failed", "refused"))).await;
    complain(&store, e1, Some(PROXY_DOWN)).await;
    complain(&store, e2, Some(PROXY_DOWN)).await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.behind, status.serving, status.refused.len()), (0, 0, 0));
    assert_eq!(status.broken.len(), 2);
    complain(&store, e1, None).await;
    see(&store, e1, id, Some("sha-1"), None).await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.serving, status.seen.unwrap().sha256.as_str()), (1, "sha-1"));
}

/// Is the domain due, after a worker saw that it has to wait?
async fn wakes(store: &SharedStore, claimed: &Claimed) -> bool {
    let due = claim_all(store, &claimant("w")).await;
    let Some(due) = due.into_iter().find(|due| due.domain.id == claimed.domain.id) else {
        return false;
    };
    let note = Note::new("edges-applying", "not yet");
    finish(store, &due, Outcome::DeploymentPending { note }).await;
    true
}

async fn a_complaint_that_begins_or_ends_wakes_what_waits(store: SharedStore) {
    let (claimed, e1, e2) = half_served(&store).await;
    let elsewhere = edge(&store, "other", "eu").await.id;
    let note = Note::new("edges-applying", "not yet");
    finish(&store, &claimed, Outcome::DeploymentPending { note }).await;
    wakes(&store, &claimed).await;
    for (which, code, woken) in [
        (elsewhere, Some("edge-disk"), false),
        (e2, Some("edge-reload-failed"), true),
        // What it repeats, and other words for it, drive nobody round and round.
        (e2, Some("edge-reload-failed"), false),
        (e2, Some("edge-disk"), false),
        (e2, Some(PROXY_DOWN), true),
        (e2, Some(PROXY_DOWN), false),
        (e2, Some("edge-disk"), true),
        (e2, None, true),
        (e2, None, false),
        (e1, None, false),
    ] {
        complain(&store, which, code).await;
        assert_eq!(wakes(&store, &claimed).await, woken, "{code:?}");
    }
}

async fn a_registration_ends_a_complaint_and_wakes_what_waits(store: SharedStore) {
    let (claimed, _, e2) = half_served(&store).await;
    let note = Note::new("edges-applying", "not yet");
    finish(&store, &claimed, Outcome::DeploymentPending { note }).await;
    complain(&store, e2, Some("edge-disk")).await;
    assert!(wakes(&store, &claimed).await);
    edge(&store, "e2", "default").await;
    assert!(wakes(&store, &claimed).await);
    edge(&store, "e2", "default").await;
    assert!(!wakes(&store, &claimed).await);
}

async fn an_edge_out_of_order_does_not_hold_up_a_removal(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let e1 = edge(&store, "e1", "default").await.id;
    see(&store, e1, domain.id, Some("sha-1"), None).await;
    store.remove(domain.id, false, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    store.begin_teardown(&claimed).await.unwrap();
    let status = store.deployment(domain.id).await.unwrap();
    assert!(status.tombstone && status.behind == 1, "{status:?}");
    for code in ["edge-reload-failed", PROXY_DOWN] {
        complain(&store, e1, Some(code)).await;
        let status = store.deployment(domain.id).await.unwrap();
        assert_eq!((status.behind, status.refused.len(), status.broken.len()), (0, 0, 1), "{code}");
    }
    complain(&store, e1, None).await;
    assert_eq!(store.deployment(domain.id).await.unwrap().behind, 1);
}
