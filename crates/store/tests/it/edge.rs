//! Edges: revisions in order, reports kept, and what waits for them woken.

use std::collections::HashSet;

use holdfast_model::{DomainId, Note, Outcome, State};
use holdfast_store::{
    COUNTED, Claimed, DomainPatch, Edge, EdgeId, EdgeReport, Error, NewDomain, NewEdge,
    Observation, Products, Revision, SharedStore,
};

use crate::{kit::*, raw::Raw};

on_both! {
    an_edge_is_known_by_its_name,
    changes_come_in_order_and_in_parts,
    a_group_sees_its_own,
    a_revision_of_another_life_is_gone,
    numbers_are_unique_under_load,
    deployed_means_seen,
    a_refusal_of_the_old_is_none_of_the_new,
    a_report_during_a_claim_is_not_lost,
    a_report_wakes_a_failed_deployment_only_when_it_is_served,
    a_change_of_groups_moves_the_deployment,
    reports_of_strangers_are_refused,
}

raw_on_both! {
    who_is_far_behind_is_counted_so_far,
    an_edge_that_is_back_wakes_what_waits_for_it,
}

pub(crate) async fn edge(store: &SharedStore, name: &str, group: &str) -> Edge {
    let new = NewEdge { name: name.to_owned(), group: group.to_owned() };
    store.register_edge(&new).await.unwrap()
}

/// A domain whose certificate waits to be seen, in a worker's hands.
pub(crate) async fn deploying(store: &SharedStore, name: &str, serial: &str) -> Claimed {
    store.add(&imported(name, serial)).await.unwrap();
    let claimed = claim_one(store, &claimant("w")).await;
    let products = Products { deploy: true, ..Products::default() };
    step(store, &claimed, Outcome::Imported, products).await
}

pub(crate) async fn see(
    store: &SharedStore,
    edge: EdgeId,
    domain: DomainId,
    sha256: Option<&str>,
    error: Option<Note>,
) {
    let sha256 = sha256.map(str::to_owned);
    let up_to = store.latest_revision().await.unwrap();
    let report = EdgeReport {
        up_to,
        observations: vec![Observation { domain, sha256, error }],
        ..EdgeReport::default()
    };
    store.observe(edge, &report, &actor()).await.unwrap();
}

async fn an_edge_is_known_by_its_name(store: SharedStore) {
    let first = edge(&store, "e1", "eu").await;
    assert!(first.live);
    assert_eq!((first.revision, first.behind), (Revision::default(), 0));
    let up_to = Revision { epoch: 1, number: 0 };
    let error = Some(Note::new("disk-full", "no space"));
    let report = EdgeReport { up_to, error: error.clone(), ..EdgeReport::default() };
    store.observe(first.id, &report, &actor()).await.unwrap();
    assert_eq!(store.edges().await.unwrap()[0].last_error, error);
    let again = edge(&store, "e1", "eu").await;
    // What it complained of was before.
    assert_eq!((again.id, again.revision, again.last_error), (first.id, up_to, None));
    // In another group it begins anew, as another one.
    let moved = edge(&store, "e1", "us").await;
    assert_eq!((moved.group.as_str(), moved.revision), ("us", Revision::default()));
    assert_ne!(moved.id, first.id);
    assert_eq!(moved.last_error, None);
    edge(&store, "e2", "eu").await;
    let names: Vec<_> = store.edges().await.unwrap().into_iter().map(|edge| edge.name).collect();
    assert_eq!(names, ["e1", "e2"]);
}

async fn changes_come_in_order_and_in_parts(store: SharedStore) {
    for n in 0..5 {
        active(&store, &format!("n{n}.example.com"), &format!("{n}")).await;
    }
    let mut after = Revision::default();
    let mut names = Vec::new();
    loop {
        let changes = store.changes("default", after, 2).await.unwrap();
        assert!(changes.items.is_sorted_by(|a, b| a.revision < b.revision));
        names.extend(changes.items.iter().map(|change| change.name.to_string()));
        after = changes.up_to;
        if !changes.more {
            break;
        }
    }
    assert_eq!(names.len(), 5);
    assert_eq!(after, store.latest_revision().await.unwrap());
    let e1 = edge(&store, "e1", "default").await;
    assert_eq!(e1.behind, 5);
    store
        .observe(e1.id, &EdgeReport { up_to: after, ..EdgeReport::default() }, &actor())
        .await
        .unwrap();
    assert_eq!(store.edges().await.unwrap()[0].behind, 0);
    let nothing = store.changes("default", after, 10).await.unwrap();
    assert!(nothing.items.is_empty() && !nothing.more && nothing.up_to == after);
}

async fn a_group_sees_its_own(store: SharedStore) {
    active(&store, "a.example.com", "1").await;
    let elsewhere = store.changes("eu", Revision::default(), 10).await.unwrap();
    assert!(elsewhere.items.is_empty());
    // It has nothing to do and is up to date all the same.
    assert_eq!(elsewhere.up_to, store.latest_revision().await.unwrap());
    assert_eq!(edge(&store, "e1", "eu").await.behind, 0);
}

async fn a_revision_of_another_life_is_gone(store: SharedStore) {
    active(&store, "a.example.com", "1").await;
    let now = store.latest_revision().await.unwrap();
    let lives = [
        Revision { epoch: now.epoch + 1, ..now },
        Revision { epoch: 0, number: 1 },
        Revision { number: now.number + 1, ..now },
    ];
    for after in lives {
        let gone = store.changes("default", after, 10).await.unwrap_err();
        assert!(matches!(gone, Error::RevisionGone { .. }), "{after:?}");
    }
}

async fn numbers_are_unique_under_load(store: SharedStore) {
    let new: Vec<_> =
        (0..40).map(|n| imported(&format!("n{n}.example.com"), &format!("{n}"))).collect();
    store.add_many(&new).await.unwrap();
    let work = claim_all(&store, &claimant("w")).await;
    let reader = {
        let store = store.clone();
        tokio::spawn(async move {
            let (mut after, mut seen) = (Revision::default(), HashSet::new());
            while seen.len() < 40 {
                let changes = store.changes("default", after, 7).await.unwrap();
                seen.extend(changes.items.iter().map(|change| change.name.clone()));
                assert!(changes.up_to >= after);
                after = changes.up_to;
            }
            after
        })
    };
    at_once(work.len(), |n| {
        let (store, claimed) = (store.clone(), work[n].clone());
        async move {
            let products = Products { deploy: true, ..Products::default() };
            step(&store, &claimed, Outcome::Imported, products).await;
        }
    })
    .await;
    let reached =
        tokio::time::timeout(SOON, reader).await.expect("a change was never seen").unwrap();
    assert_eq!(reached.number, 40);
}

async fn deployed_means_seen(store: SharedStore) {
    let claimed = deploying(&store, "shop.example.com", "1").await;
    let id = claimed.domain.id;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.live, status.behind, status.tombstone), (0, 0, false));
    assert_eq!(status.revision, Some(store.latest_revision().await.unwrap()));
    let (e1, e2) = (edge(&store, "e1", "default").await.id, edge(&store, "e2", "default").await.id);
    edge(&store, "other", "eu").await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.live, status.behind, status.serving), (2, 2, 0));
    see(&store, e1, id, Some("sha-1"), None).await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.live, status.behind, status.serving), (2, 1, 1));
    assert_eq!(status.seen.as_ref().unwrap().sha256, "sha-1");
    let note = Note::new("edge-refused", "no room");
    see(&store, e2, id, Some("sha-0"), Some(note.clone())).await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.behind, status.serving), (0, 1));
    assert_eq!(status.refused, [("e2".to_owned(), note)]);
}

async fn a_refusal_of_the_old_is_none_of_the_new(store: SharedStore) {
    let claimed = deploying(&store, "shop.example.com", "1").await;
    let id = claimed.domain.id;
    let e1 = edge(&store, "e1", "default").await.id;
    see(&store, e1, id, None, Some(Note::new("edge-refused", "no room"))).await;
    assert_eq!(store.deployment(id).await.unwrap().refused.len(), 1);
    let products = Products { deploy: true, ..Products::default() };
    let note = Note::new("edges-applying", "anew");
    step(&store, &claimed, Outcome::DeploymentPending { note }, products).await;
    let status = store.deployment(id).await.unwrap();
    assert_eq!((status.behind, status.refused.len()), (1, 0));
}

async fn a_report_during_a_claim_is_not_lost(store: SharedStore) {
    let claimed = deploying(&store, "shop.example.com", "1").await;
    let e1 = edge(&store, "e1", "default").await.id;
    // The worker has looked and seen nothing; before it commits that, the report comes.
    see(&store, e1, claimed.domain.id, Some("sha-1"), None).await;
    assert!(claim_all(&store, &claimant("other")).await.is_empty());
    let note = Note::new("edges-applying", "not yet");
    let waiting = finish(&store, &claimed, Outcome::DeploymentPending { note }).await;
    assert_eq!(waiting.domain.state, State::CertificateDeploying);
    let again = claim_one(&store, &claimant("w")).await;
    // Looked at since: now it may wait.
    let note = Note::new("edges-applying", "not yet");
    finish(&store, &again, Outcome::DeploymentPending { note }).await;
    assert!(claim_all(&store, &claimant("w")).await.is_empty());
    see(&store, e1, claimed.domain.id, Some("sha-1"), None).await;
    assert_eq!(claim_all(&store, &claimant("w")).await.len(), 1);
}

async fn a_report_wakes_a_failed_deployment_only_when_it_is_served(store: SharedStore) {
    let claimed = deploying(&store, "shop.example.com", "1").await;
    let id = claimed.domain.id;
    let e1 = edge(&store, "e1", "default").await.id;
    let note = Note::new("edge-refused", "no room");
    let failed = finish(&store, &claimed, Outcome::DeploymentRefused { note: note.clone() }).await;
    assert_eq!(failed.domain.state, State::CertificateDeploymentFailed);
    see(&store, e1, id, None, Some(note)).await;
    assert!(claim_all(&store, &claimant("w")).await.is_empty());
    see(&store, e1, id, Some("sha-1"), None).await;
    assert_eq!(claim_all(&store, &claimant("w")).await.len(), 1);
    // A domain that rests is left in peace.
    let resting = active(&store, "rest.example.com", "2").await;
    see(&store, e1, resting.id, Some("sha-2"), None).await;
    assert!(claim_all(&store, &claimant("w")).await.is_empty());
}

/// It has everything in place, and nothing to say of what waits for it.
async fn an_edge_that_is_back_wakes_what_waits_for_it(raw: Raw) {
    let store = &raw.store;
    let claimed = deploying(store, "shop.example.com", "1").await;
    let elsewhere = NewDomain { edge_group: "eu".to_owned(), ..imported("eu.example.com", "2") };
    store.add(&elsewhere).await.unwrap();
    let e1 = edge(store, "e1", "default").await.id;
    let other = claim_one(store, &claimant("w")).await;
    let deploy = Products { deploy: true, ..Products::default() };
    let other = step(store, &other, Outcome::Imported, deploy).await;
    let note = Note::new("no-live-edge", "none");
    let pending = Outcome::DeploymentPending { note };
    finish(store, &other, pending.clone()).await;
    finish(store, &claimed, pending.clone()).await;
    let due = async || claim_all(store, &claimant("w")).await;
    let silent = format!("UPDATE edge SET last_seen_at = {}", raw.days_ago(1));
    let report = EdgeReport::default();
    // One that was live all the time wakes nothing.
    store.observe(e1, &report, &actor()).await.unwrap();
    assert!(due().await.is_empty());
    raw.execute(&silent).await;
    store.observe(e1, &report, &actor()).await.unwrap();
    let woken = due().await;
    assert_eq!(woken.iter().map(|one| one.domain.id).collect::<Vec<_>>(), [claimed.domain.id]);
    finish(store, &woken[0], pending.clone()).await;
    // Its agent was started again.
    raw.execute(&silent).await;
    edge(store, "e1", "default").await;
    let woken = due().await;
    assert_eq!(woken.iter().map(|one| one.domain.id).collect::<Vec<_>>(), [claimed.domain.id]);
    finish(store, &woken[0], pending).await;
    edge(store, "e1", "default").await;
    assert!(due().await.is_empty());
}

async fn a_change_of_groups_moves_the_deployment(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let before = store.latest_revision().await.unwrap();
    let patch = DomainPatch { edge_group: Some("eu".to_owned()), ..DomainPatch::default() };
    store.patch(domain.id, None, &patch, &actor()).await.unwrap();
    let old = store.changes("default", before, 10).await.unwrap().items;
    let new = store.changes("eu", before, 10).await.unwrap().items;
    assert_eq!((old.len(), old[0].certificate.as_ref()), (1, None));
    assert_eq!(new[0].certificate.as_ref().unwrap().1, "sha-1");
    assert!(store.bundle_named(&domain.name).await.unwrap().is_some());
    let status = store.deployment(domain.id).await.unwrap();
    assert!(!status.tombstone && status.revision == Some(new[0].revision));
}

async fn reports_of_strangers_are_refused(store: SharedStore) {
    let stranger = EdgeId(uuid::Uuid::new_v4());
    let refused = store.observe(stranger, &EdgeReport::default(), &actor()).await.unwrap_err();
    assert!(matches!(refused, Error::NotFound("edge")));
    // Of a domain nobody knows, or twice of one, an edge may say what it likes.
    let e1 = edge(&store, "e1", "default").await.id;
    let one = Observation { domain: DomainId::new(), sha256: None, error: None };
    let report = EdgeReport { observations: vec![one.clone(), one], ..EdgeReport::default() };
    store.observe(e1, &report, &actor()).await.unwrap();
}

/// However much it has missed, no more of it is read to say so.
async fn who_is_far_behind_is_counted_so_far(raw: Raw) {
    edge(&raw.store, "stale", "default").await;
    raw.execute(&format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {})
         INSERT INTO deployment (name, edge_group, domain_id, certificate_id, revision, updated_at)
         SELECT 'n' || n || '.example.com', 'default', {id}, {id}, n, {} FROM n",
        COUNTED + 10,
        raw.days_ago(1),
        id = raw.some_id(),
    ))
    .await;
    let behind = async || raw.store.edges().await.unwrap()[0].behind;
    // A reader stops after a hundred; who counts for all goes on, and writes only what has changed.
    assert_eq!(behind().await, 101);
    assert_eq!(raw.store.count_edges(None).await.unwrap(), 1);
    assert_eq!(raw.store.count_edges(None).await.unwrap(), 0);
    assert_eq!(behind().await, u64::from(COUNTED));
    raw.execute("DELETE FROM deployment WHERE revision > 20").await;
    assert_eq!(behind().await, 20);
}
