//! What edges list and fetch, the strangers they find, and going back to the certificate before.

use holdfast_model::{Hostname, Note, Outcome, State};
use holdfast_store::{
    Adopt, Adopted, Adoption, Asked, DomainPatch, EdgeAgent, EdgeId, EdgeReport, Error, Found,
    NewEdge, Page, Products, Revision, SharedStore, Stranger,
};

use crate::kit::*;

on_both! {
    a_listing_is_by_name_and_as_of_its_beginning,
    many_deployments_stand_as_each_does,
    a_certificate_that_several_share_is_given_for_the_one_asked,
    an_agent_is_described_bit_by_bit,
    strangers_are_what_was_last_reported,
    an_adoption_is_told_until_it_is_done,
    why_a_file_was_not_taken_over_is_kept,
    going_back_takes_the_domain_from_its_worker,
    what_has_expired_is_not_gone_back_to,
}

async fn edge(store: &SharedStore, name: &str) -> EdgeId {
    let new = NewEdge { name: name.to_owned(), group: "default".to_owned() };
    store.register_edge(&new).await.unwrap().id
}

/// A domain whose certificate waits to be seen.
async fn deployed(store: &SharedStore, name: &str, serial: &str) -> holdfast_model::Domain {
    store.add(&imported(name, serial)).await.unwrap();
    let claimed = claim_one(store, &claimant("w")).await;
    let products = Products { deploy: true, ..Products::default() };
    step(store, &claimed, Outcome::Imported, products).await.domain
}

fn page(limit: u32, after: Option<String>) -> Page {
    Page { limit, after }
}

async fn a_listing_is_by_name_and_as_of_its_beginning(store: SharedStore) {
    let empty = store.desired("default", &page(2, None)).await.unwrap();
    assert_eq!((empty.items.len(), empty.next, empty.revision.number), (0, None, 0));
    for name in ["c.example.com", "a.example.com", "b.example.com"] {
        deployed(&store, name, name).await;
    }
    let first = store.desired("default", &page(2, None)).await.unwrap();
    let names: Vec<_> = first.items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["a.example.com", "b.example.com"]);
    // One goes and one comes: the next part shows it as it is, as of where the listing began.
    let gone = store.domain_named(&host("c.example.com")).await.unwrap().unwrap();
    let patch = DomainPatch { edge_group: Some("other".into()), ..DomainPatch::default() };
    store.patch(gone.id, None, &patch, &actor()).await.unwrap();
    deployed(&store, "d.example.com", "d").await;
    let second = store.desired("default", &page(2, first.next)).await.unwrap();
    assert_eq!(second.items.len(), 1);
    assert_eq!((second.items[0].name.as_str(), second.revision), ("d.example.com", first.revision));
    assert_eq!(second.next, None);
    let other = store.desired("other", &page(9, None)).await.unwrap();
    assert_eq!(other.items[0].name.as_str(), "c.example.com");
    for cursor in ["x", "1.1:", ":a.example.com", "1.1:NOT.lower"] {
        let refused = store.desired("default", &page(2, Some(cursor.to_owned()))).await;
        assert!(matches!(refused, Err(Error::BadCursor(_))), "{cursor}");
    }
}

async fn many_deployments_stand_as_each_does(store: SharedStore) {
    edge(&store, "e1").await;
    edge(&store, "e2").await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(deployed(&store, &format!("n{n}.example.com"), &format!("s{n}")).await.id);
    }
    let untouched = add(&store, "new.example.com").await.id;
    ids.push(untouched);
    let many = store.deployments(&ids).await.unwrap();
    assert_eq!(many.len(), ids.len());
    for id in &ids {
        assert_eq!(many[id], store.deployment(*id).await.unwrap());
    }
    assert_eq!((many[&ids[0]].live, many[&ids[0]].behind, many[&untouched].behind), (2, 2, 0));
    assert!(store.deployments(&[]).await.unwrap().is_empty());
}

async fn a_certificate_that_several_share_is_given_for_the_one_asked(store: SharedStore) {
    let one = deployed(&store, "one.example.com", "shared").await;
    let two = deployed(&store, "two.example.com", "shared").await;
    let patch = DomainPatch { edge_group: Some("other".into()), ..DomainPatch::default() };
    store.patch(two.id, None, &patch, &actor()).await.unwrap();
    let ask = async |group: &str, domain| {
        let found = store.bundle_by_sha256("sha-shared", Some(group), domain).await.unwrap();
        let (bundle, group) = found.unwrap();
        (bundle.name.to_string(), group)
    };
    let answer = |name: &str, group: &str| (name.to_owned(), group.to_owned());
    assert_eq!(ask("default", None).await, answer("one.example.com", "default"));
    assert_eq!(ask("other", None).await, answer("two.example.com", "other"));
    assert_eq!(ask("other", Some(one.id)).await, answer("one.example.com", "default"));
    assert!(store.bundle_by_sha256("sha-none", None, None).await.unwrap().is_none());
    let name = host("one.example.com");
    assert_eq!(store.bundle_in("default", &name).await.unwrap().unwrap().name, name);
    assert!(store.bundle_in("other", &name).await.unwrap().is_none());
}

async fn an_agent_is_described_bit_by_bit(store: SharedStore) {
    let id = edge(&store, "e1").await;
    assert_eq!(store.edge_named("e1").await.unwrap().unwrap().agent, EdgeAgent::default());
    let version = EdgeAgent { version: Some("1".into()), ..EdgeAgent::default() };
    store.describe_edge(id, &version).await.unwrap();
    let mode = EdgeAgent { mode: Some("observe".into()), ..EdgeAgent::default() };
    store.describe_edge(id, &mode).await.unwrap();
    let known = store.edge_named("e1").await.unwrap().unwrap();
    let both = EdgeAgent { version: Some("1".into()), target: None, mode: Some("observe".into()) };
    assert_eq!(known.agent, both);
    // What a report does not say stays as it was.
    store.observe(id, &EdgeReport::default(), &actor()).await.unwrap();
    assert_eq!(store.edge_named("e1").await.unwrap().unwrap().agent, both);
    let mode = Some("apply".to_owned());
    store.observe(id, &EdgeReport { mode, ..EdgeReport::default() }, &actor()).await.unwrap();
    let known = store.edge_named("e1").await.unwrap().unwrap();
    assert_eq!(known.agent.mode.as_deref(), Some("apply"));
    assert_eq!(store.edge_identity("e1").await.unwrap().unwrap().id, id);
    assert!(store.edge_identity("e2").await.unwrap().is_none());
}

fn stranger(file: &str, names: &[&str], shadows: bool) -> Stranger {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Stranger { file: file.to_owned(), names, sha256: Some("x".into()), shadows }
}

/// The edge has found these.
pub(crate) async fn find(store: &SharedStore, edge: EdgeId, found: &[Stranger]) {
    let report = EdgeReport { strangers: Some(found.to_vec()), ..EdgeReport::default() };
    store.observe(edge, &report, &actor()).await.unwrap();
}

async fn strangers_are_what_was_last_reported(store: SharedStore) {
    let (one, two) = (edge(&store, "e1").await, edge(&store, "e2").await);
    let first = [stranger("a.pem", &["a.example.com"], true), stranger("b.pem", &[], false)];
    find(&store, one, &first).await;
    find(&store, two, &first).await;
    let second = [stranger("b.pem", &["b.example.com"], true), stranger("c.pem", &[], true)];
    find(&store, one, &second).await;
    let found = |stranger: &Stranger| Found { stranger: stranger.clone(), asked: None };
    let listed = store.strangers(one, &page(10, None)).await.unwrap();
    assert_eq!(listed.items, second.each_ref().map(found));
    let part = store.strangers(two, &page(1, None)).await.unwrap();
    assert_eq!((&part.items[..], part.next.as_deref()), (&[found(&first[0])][..], Some("a.pem")));
    let edge = store.edge_named("e1").await.unwrap().unwrap();
    assert_eq!((edge.strangers, edge.shadows), (2, 2));
    find(&store, one, &[]).await;
    assert_eq!(store.edge_named("e1").await.unwrap().unwrap().strangers, 0);
}

async fn an_adoption_is_told_until_it_is_done(store: SharedStore) {
    let id = edge(&store, "e1").await;
    deployed(&store, "a.example.com", "a").await;
    deployed(&store, "b.example.com", "b").await;
    let found = [
        stranger("one.pem", &["a.example.com", "b.example.com", "*.example.com"], true),
        stranger("two.pem", &["b.example.com"], true),
    ];
    find(&store, id, &found).await;
    let ask = async |what: Adopt| {
        let asked = store.adopt(id, &what, &actor()).await.unwrap();
        let mut asked: Vec<_> =
            asked.into_iter().map(|one| (one.file, one.name.to_string())).collect();
        asked.sort();
        asked
    };
    let pair = |file: &str, name: &str| (file.to_owned(), name.to_owned());
    let name: Hostname = host("b.example.com");
    let (one, two) = (pair("one.pem", "b.example.com"), pair("two.pem", "b.example.com"));
    let all = [pair("one.pem", "a.example.com"), one, two.clone()];
    // A file is taken over for all of its names.
    assert_eq!(ask(Adopt::Name(name)).await, all);
    assert_eq!(ask(Adopt::Name(host("a.example.com"))).await, all[..2]);
    assert_eq!(ask(Adopt::Name(host("x.example.com"))).await, []);
    assert_eq!(ask(Adopt::File("two.pem".into())).await, [two]);
    assert_eq!(ask(Adopt::All).await, all);
    assert_eq!(ask(Adopt::File("three.pem".into())).await, []);
    let told = store.adoptions(id).await.unwrap();
    assert_eq!(told.len(), 3);
    assert_eq!(store.adoptions(id).await.unwrap(), [], "told a moment ago");
    let done = told.into_iter().map(|adoption| Adopted { adoption, error: None });
    let report = EdgeReport { adopted: done.collect(), ..EdgeReport::default() };
    store.observe(id, &report, &actor()).await.unwrap();
    assert_eq!(ask(Adopt::File("two.pem".into())).await.len(), 1);
    assert_eq!(store.adoptions(id).await.unwrap().len(), 1, "only what was asked since");
}

/// Until it is asked for again, or the file is gone.
async fn why_a_file_was_not_taken_over_is_kept(store: SharedStore) {
    let (id, all) = (edge(&store, "e1").await, Page { limit: 10, after: None });
    deployed(&store, "a.example.com", "a").await;
    let found = [stranger("one.pem", &["a.example.com"], true)];
    find(&store, id, &found).await;
    let asked = async || store.strangers(id, &all).await.unwrap().items[0].asked.clone();
    for why in ["because", "still"] {
        let adoption = store.adopt(id, &Adopt::All, &actor()).await.unwrap().remove(0);
        assert_eq!(asked().await, Some(Asked::Waiting));
        let note = Note::new("edge-not-adoptable", why);
        // What nobody asked for, and what is told twice, changes nothing.
        let other = Adoption { file: "gone.pem".into(), ..adoption.clone() };
        let told = [&other, &adoption, &adoption];
        let told = told.map(|one| Adopted { adoption: one.clone(), error: Some(note.clone()) });
        let report = EdgeReport { adopted: told.to_vec(), ..EdgeReport::default() };
        store.observe(id, &report, &actor()).await.unwrap();
        assert_eq!(asked().await, Some(Asked::Refused(note)));
        find(&store, id, &found).await;
        assert!(asked().await.is_some());
    }
    find(&store, id, &[]).await;
    find(&store, id, &found).await;
    assert_eq!(asked().await, None);
}

async fn going_back_takes_the_domain_from_its_worker(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "one").await;
    store.want(domain.id, holdfast_model::Wanted::Renew, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    let now = store.ping().await.unwrap();
    let products =
        Products { certificate: Some(certificate("two", DIRECTORY)), ..Products::default() };
    let renewed = step(&store, &claimed, Outcome::RenewalLater { look_at: now }, products).await;
    assert_eq!(renewed.domain.certificate.as_ref().unwrap().sha256, "sha-two");
    assert_eq!(store.held_until(domain.id).await.unwrap(), None);

    let before = store.latest_revision().await.unwrap();
    let back = store.roll_back(domain.id, None, &actor()).await.unwrap();
    assert_eq!((back.state, back.attempt), (State::CertificateDeploying, 0));
    assert_eq!(back.certificate.unwrap().sha256, "sha-one");
    let changes = store.changes("default", before, 10).await.unwrap();
    assert_eq!(changes.items[0].certificate.as_ref().unwrap().1, "sha-one");
    assert_eq!(changes.up_to, Revision { number: before.number + 1, ..before });
    assert!(store.held_until(domain.id).await.unwrap().is_some_and(|until| until > now));
    // Whoever worked on it finds out when it commits, and whoever comes next finds it due.
    let late = commit_of(&store, &renewed, &Outcome::RenewalNeeded, Products::default(), false);
    let late = store.commit(&renewed, &late.await).await;
    assert!(matches!(late, Err(Error::ClaimLost)), "{late:?}");
    let next = claim_one(&store, &claimant("x")).await;
    let active = finish(&store, &next, Outcome::DeploymentSeen).await.domain;
    assert_eq!(
        (active.state, active.certificate.unwrap().sha256.as_str()),
        (State::Active, "sha-one")
    );
    let counts = store.counts().await.unwrap();
    assert_eq!(counts, [(State::Active, 1)]);
    assert_eq!(store.bundle(domain.id).await.unwrap().unwrap().summary.sha256, "sha-one");
}

async fn what_has_expired_is_not_gone_back_to(store: SharedStore) {
    let mut old = certificate("old", "imported");
    old.summary.not_after = holdfast_model::Timestamp::from_seconds(1_700_000_001);
    let import = Some(holdfast_store::Import { certificate: old });
    let new = holdfast_store::NewDomain { import, ..fresh("shop.example.com") };
    let domain = store.add(&new).await.unwrap().domain;
    let refused = store.roll_back(domain.id, None, &actor()).await;
    assert!(matches!(refused, Err(Error::NotNow(State::Initial))), "{refused:?}");
    let claimed = claim_one(&store, &claimant("w")).await;
    let deploy = Products { deploy: true, ..Products::default() };
    let deploying = step(&store, &claimed, Outcome::Imported, deploy).await;
    let issued =
        Products { certificate: Some(certificate("new", DIRECTORY)), ..Products::default() };
    step(&store, &deploying, Outcome::DeploymentSeen, issued).await;
    for to in [None, Some("sha-old"), Some("sha-new"), Some("sha-none")] {
        let refused = store.roll_back(domain.id, to, &actor()).await;
        assert!(matches!(refused, Err(Error::NothingToRollBackTo)), "{to:?} {refused:?}");
    }
}
