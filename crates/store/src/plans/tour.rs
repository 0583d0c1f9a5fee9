//! Runs every statement there is, on a store that holds much already. `coverage` says what this leaves out.

use std::time::Duration;

use holdfast_model::{DomainId, Note, Outcome, State, WaitScope, Wanted};

use super::kit::*;
use crate::{
    Adopt, Adopted, Adoption, Attempt, Beat, ClaimRequest, Claimed, Commit, DomainFilter,
    DomainPatch, EdgeAgent, EdgeReport, EventCursor, Fence, Import, LeaseHome, MasterKey, Names,
    NewDelivery, NewDomain, NewEdge, NewReplica, NewToken, NewWebhook, Observation, Outdated, Page,
    Products, ReportOrder, Resealing, Revision, Scope, Search, Secret, SharedStore, StandingAlert,
    Stranger, TaskRun, Then, UNUSABLE,
};

const PAGE: Page = Page { limit: 10, after: None };
/// What stands for sealed values among a hundred thousand others cannot be opened, so it is not to be sealed anew.
const KEY_IS_NEW: &str =
    "UPDATE sealed SET sealing_key = (SELECT max(id) FROM sealing_key) WHERE length(value) = 1";
/// A new edge is behind everything there is, once.
const RECENT: &str = "UPDATE edge SET epoch = (SELECT epoch FROM revision), revision = (SELECT number FROM revision) - 10";
/// An edge that gives no sign of life.
const SILENT: &str = "UPDATE edge SET last_seen_at = (SELECT min(not_before) FROM certificate)";
/// What a renewal left behind.
const ENDED: &str = "UPDATE certificate SET not_after = created_at WHERE superseded_at IS NOT NULL";
/// What a clock that was ahead wrote: a budget, and one domain.
const FULL_IN_THE_FUTURE: &str =
    "UPDATE acme_account SET budget_at = (SELECT max(not_after) FROM certificate)";
const FULL: &str = "UPDATE acme_account SET budget_at = NULL";
const WRITTEN_IN_THE_FUTURE: &str =
    "UPDATE domain SET updated_at = (SELECT max(not_after) FROM certificate)
    WHERE name = (SELECT min(name) FROM domain WHERE removed_at IS NULL)";
/// Much waits, and all of it for the account that is asked for.
const WAITING_FOR_US: &str =
    "UPDATE ca_wait SET account_id = (SELECT id FROM acme_account ORDER BY directory LIMIT 1)
    WHERE account_id <> (SELECT id FROM acme_account ORDER BY directory LIMIT 1)";
/// More than earlier tours leave due.
const ALL_DUE: u32 = 200;
const LATER: Duration = Duration::from_secs(3600);

/// All of them. `round` keeps the names of one tour apart from those of another.
pub(super) async fn tour(
    store: &SharedStore,
    key: &MasterKey,
    round: &str,
    raw: impl AsyncFn(&'static str),
) {
    let name = |name: &str| format!("{name}-{round}.example.com");
    requests(store, &name).await;
    lists(store, &name).await;
    issuance(store, &name).await;
    edges(store, &name, &raw).await;
    removal(store, &name).await;
    unreadable(store, &name, &raw).await;
    webhooks(store, round).await;
    accounts(store, &raw).await;
    singletons(store, &name, &raw).await;
    moments(store, &raw).await;
    replicas(store, round).await;
    keys(store, key, raw).await;
}

fn token(name: &str, scope: Scope, hash: u8, edge: Option<&str>) -> NewToken {
    NewToken {
        name: name.to_owned(),
        scope,
        hash: [hash; 32],
        edge: edge.map(str::to_owned),
        group: edge.map(|_| "default".to_owned()),
    }
}

/// The due domain of this name; whatever else was claimed is given back.
async fn claimed(store: &SharedStore, name: &str) -> Claimed {
    let who = claimant("tourist");
    let work = store.claim(&who, ALL_DUE, HOLD).await.unwrap().work;
    let (mut mine, others): (Vec<_>, Vec<_>) =
        work.into_iter().partition(|one| one.domain.name.as_str() == name);
    let others: Vec<_> = others.iter().map(|one| (one.domain.id, one.epoch)).collect();
    store.unclaim(&who, &others).await.unwrap();
    let mine = mine.pop().unwrap_or_else(|| panic!("{name} is not due"));
    let lost = store.renew_claims(&who, &[(mine.domain.id, mine.epoch)], HOLD).await.unwrap();
    assert!(lost.is_empty());
    mine
}

async fn admitted(store: &SharedStore, name: &str) -> Claimed {
    let account = account(store).await;
    let work = store.admit(&claimant("tourist"), account, MANY, 2, HOLD).await.unwrap().work;
    work.into_iter().find(|one| one.domain.name.as_str() == name).unwrap()
}

async fn requests(store: &SharedStore, name: &impl Fn(&str) -> String) {
    let new = fresh(&name("asked"));
    store.would_add(&new).await.unwrap();
    let id = store.add(&new).await.unwrap().domain.id;
    store.add(&new).await.unwrap();
    store.add(&fresh(&name("asked"))).await.unwrap_err();
    let many = [fresh(&name("many1")), fresh(&name("many2")), new.clone()];
    assert_eq!(store.add_many(&many).await.unwrap().len(), 3);
    store.want(id, Wanted::Retry, &actor()).await.unwrap();
    let resource = Some(format!("resource of {}", new.name));
    let patch = DomainPatch { resource, ..DomainPatch::default() };
    store.patch(id, None, &patch, &actor()).await.unwrap();
    let claim = |orchestration: &str| ClaimRequest {
        resource: name("resource"),
        name: Some(host(&name("bare"))),
        orchestration_id: orchestration.to_owned(),
    };
    let mine = name("orchestration");
    store.claim_resource(&claim(&mine)).await.unwrap();
    store.claim_resource(&claim(&name("other"))).await.unwrap_err();
    store.claim_on(&name("resource")).await.unwrap();
    let taken = DomainPatch { resource: Some(name("resource")), ..DomainPatch::default() };
    store.patch(id, None, &taken, &actor()).await.unwrap_err();
    store.release_resource(&name("resource"), &name("other")).await.unwrap_err();
    store.release_resource(&name("resource"), &mine).await.unwrap();
    store.claim_resource(&claim(&mine)).await.unwrap();
    let adopted = name("adopted");
    let bare =
        ClaimRequest { resource: adopted.clone(), name: None, orchestration_id: adopted.clone() };
    store.claim_resource(&bare).await.unwrap();
    let resource = Some(adopted.clone());
    store.add(&NewDomain { resource, ..request(&adopted, &adopted) }).await.unwrap();
}

async fn lists(store: &SharedStore, name: &impl Fn(&str) -> String) {
    let some = store.domain_named(&host(&name("asked"))).await.unwrap().unwrap();
    store.domain(some.id).await.unwrap();
    let prefix = || Some("d05".to_owned());
    let filters = [
        (prefix(), None, None),
        (None, Some(State::DnsVerificationFailed), None),
        (None, None, Some("t7".to_owned())),
        (prefix(), Some(State::Active), Some("t7".to_owned())),
    ];
    for (prefix, state, tenant) in filters {
        let filter = DomainFilter { prefix, state, tenant };
        store.domains(&filter, &PAGE).await.unwrap();
    }
    store.history(some.id, &PAGE).await.unwrap();
    let latest = store.latest_event().await.unwrap();
    store.events_after(latest, 10).await.unwrap();
    store.events_after(EventCursor::default(), 10).await.unwrap();
    store.event_lag().await.unwrap();
    store.counts().await.unwrap();
    store.queue_place(some.id).await.unwrap();
    store.vitals(&[LATER]).await.unwrap();
    store.staying(State::Initial, Duration::ZERO, 10).await.unwrap();
    store.unapplied_since("default", Revision { epoch: 1, number: 99_990 }).await.unwrap();
    store.expiring(LATER, 10).await.unwrap();
    store.ending(10).await.unwrap();
    store.late_issues(10).await.unwrap();
    store.ping().await.unwrap();
    store.schema().await.unwrap();
    store.check_writes().await.unwrap();
}

/// From a request to a certificate, a renewal and the way back.
async fn issuance(store: &SharedStore, name: &impl Fn(&str) -> String) {
    let shop = name("shop");
    add(store, &shop).await;
    into_queue(store, claimed(store, &shop).await).await;
    let admitted = admitted(store, &shop).await;
    let downloading = into_download(store, admitted, &shop).await;
    store.challenge_answer(&shop).await.unwrap();
    store.alpn_answer(&host(&shop)).await.unwrap();
    store.open_challenges(10).await.unwrap();
    store.order_account(downloading.domain.id).await.unwrap().unwrap();
    store.open_order(downloading.domain.id).await.unwrap().unwrap();
    let trouble = Products { order_trouble: Some("gone"), ..Products::default() };
    let downloading =
        step(store, &downloading, Outcome::OrderProcessing { retry_after: None }, trouble).await;
    let deploying = issue(store, &downloading, &format!("{shop}-1")).await;
    let domain = finish(store, &deploying, Outcome::DeploymentSeen).await.domain;
    store.bundle(domain.id).await.unwrap().unwrap();
    store.bundle_named(&domain.name).await.unwrap().unwrap();
    store.bundle_in("default", &domain.name).await.unwrap().unwrap();
    store.held_until(domain.id).await.unwrap();
    store.certificates_since(domain.id, domain.entered_at, 2).await.unwrap();
    let sha256 = format!("sha-{shop}-1");
    store.bundle_by_sha256(&sha256, Some("default"), Some(domain.id)).await.unwrap().unwrap();
    renewal(store, &shop, domain.id).await;
}

async fn renewal(store: &SharedStore, shop: &str, id: DomainId) {
    store.want(id, Wanted::Renew, &actor()).await.unwrap();
    let claimed = claimed(store, shop).await;
    let renewing = step(store, &claimed, Outcome::RenewalNeeded, Products::default()).await;
    assert_eq!(renewing.domain.state, State::AcmeOrdering);
    store.queue_place(id).await.unwrap();
    let downloading = into_download(store, admitted(store, shop).await, &format!("{shop}2")).await;
    let deploying = issue(store, &downloading, &format!("{shop}-2")).await;
    finish(store, &deploying, Outcome::DeploymentSeen).await;
    store.roll_back(id, None, &actor()).await.unwrap();
    store.roll_back(id, Some("sha-none"), &actor()).await.unwrap_err();
}

async fn edges(
    store: &SharedStore,
    name: &impl Fn(&str) -> String,
    raw: impl AsyncFn(&'static str),
) {
    let edge_name = name("edge");
    let new = NewEdge { name: edge_name.clone(), group: "default".to_owned() };
    let edge = store.register_edge(&new).await.unwrap().id;
    raw(RECENT).await;
    let agent = EdgeAgent { version: Some("1".to_owned()), ..EdgeAgent::default() };
    store.describe_edge(edge, &agent).await.unwrap();
    store.edge_named(&edge_name).await.unwrap();
    store.edge_identity(&edge_name).await.unwrap();
    let session = store.open_session(edge).await.unwrap();
    let latest = store.latest_revision().await.unwrap();
    let recent = Revision { number: latest.number - 5, ..latest };
    store.changes("default", latest, 10).await.unwrap();
    store.desired("default", &PAGE).await.unwrap();
    let shop = store.domain_named(&host(&name("shop"))).await.unwrap().unwrap();
    let asked = store.domain_named(&host(&name("asked"))).await.unwrap().unwrap();
    let files = [name("shop"), name("gone")].map(|file| Stranger {
        file,
        names: vec![name("shop")],
        sha256: None,
        shadows: true,
    });
    let error = Some(Note::new("edge-refused", "no room"));
    let report = |sequence, found: &[Stranger], adopted| EdgeReport {
        up_to: recent,
        observations: [(&shop, "edge-refused"), (&asked, UNUSABLE)]
            .map(|(one, code)| Observation {
                domain: one.id,
                sha256: None,
                error: Some(Note::new(code, "no room")),
            })
            .to_vec(),
        strangers: Some(found.to_vec()),
        adopted,
        order: Some(ReportOrder { session, sequence }),
        ..EdgeReport::default()
    };
    store.observe(edge, &report(1, &files, Vec::new()), &actor()).await.unwrap();
    store.adopt(edge, &Adopt::All, &actor()).await.unwrap();
    store.adoptions(edge).await.unwrap();
    let adoption = |file: String| Adoption { file, name: host(&name("shop")) };
    let adopted = vec![
        Adopted { adoption: adoption(name("shop")), error: error.clone() },
        Adopted { adoption: adoption(name("gone")), error: None },
    ];
    store.observe(edge, &report(2, &files[..1], adopted), &actor()).await.unwrap();
    let plain = EdgeReport { up_to: latest, ..EdgeReport::default() };
    store.observe(edge, &plain, &actor()).await.unwrap();
    // It was away, and is back; then its agent was, and is started again.
    raw(SILENT).await;
    store.observe(edge, &plain, &actor()).await.unwrap();
    // What an edge says of itself as a whole wakes its group, and so does its next registration.
    store.observe(edge, &EdgeReport { error, ..plain }, &actor()).await.unwrap();
    raw(SILENT).await;
    store.register_edge(&new).await.unwrap();
    store.strangers(edge, &PAGE).await.unwrap();
    let names = Names::of(vec![name("unknown")]);
    store.keep_difference(edge, &names, Some(&names)).await.unwrap();
    store.difference(edge).await.unwrap();
    store.refusals(edge, &PAGE).await.unwrap();
    store.edges().await.unwrap();
    store.deployment(shop.id).await.unwrap();
    store.deployments(&[shop.id]).await.unwrap();
    let patch = DomainPatch { edge_group: Some("other".to_owned()), ..DomainPatch::default() };
    store.patch(shop.id, None, &patch, &actor()).await.unwrap();
    tokens(store, &edge_name).await;
    let elsewhere = NewEdge { name: edge_name.clone(), group: "other".to_owned() };
    store.register_edge(&elsewhere).await.unwrap();
    store.remove_edge(&edge_name, &actor()).await.unwrap().unwrap();
    store.forget_departed(None, 1).await.unwrap();
    for _ in 0..200 {
        store.forget_departed(None, 1_000).await.unwrap();
    }
}

async fn tokens(store: &SharedStore, edge: &str) {
    let hash = edge.bytes().fold(0, u8::wrapping_add);
    store.keep_first_token(&token("admin", Scope::Admin, 1, None)).await.unwrap();
    store.keep_token(&token("edge", Scope::Edge, hash, Some(edge))).await.unwrap();
    let kept = store.token(&[hash; 32]).await.unwrap().unwrap();
    store.edge_token(edge).await.unwrap();
    store.tokens().await.unwrap();
    let other = token("other", Scope::Read, hash.wrapping_add(1), None);
    let other = store.keep_token(&other).await.unwrap();
    store.revoke_token(other.id).await.unwrap();
    assert_eq!(kept.scope, Scope::Edge);
}

async fn removal(store: &SharedStore, name: &impl Fn(&str) -> String) {
    let domain = store.domain_named(&host(&name("many1"))).await.unwrap().unwrap();
    store.remove(domain.id, false, &actor()).await.unwrap();
    let torn = store.begin_teardown(&claimed(store, &name("many1")).await).await.unwrap();
    store.postpone_removal(&torn, Duration::ZERO).await.unwrap();
    let torn = store.begin_teardown(&claimed(store, &name("many1")).await).await.unwrap();
    store.finish_removal(&torn, &actor()).await.unwrap();
    store.add(&imported(&name("imported"), &name("serial"))).await.unwrap();
    let claimed = claimed(store, &name("imported")).await;
    let deploy = Products { deploy: true, ..Products::default() };
    let commit: Commit = commit_of(store, &claimed, &Outcome::Imported, deploy, true).await;
    let deployed = store.commit(&claimed, &commit).await.unwrap();
    store.remove(deployed.domain.id, true, &actor()).await.unwrap();
    store.remove(deployed.domain.id, true, &actor()).await.unwrap();
    let torn = store.begin_teardown(&deployed).await.unwrap();
    store.finish_removal(&torn, &actor()).await.unwrap();
}

/// Rows that somebody else spoiled; and an order that the CA never heard of.
async fn unreadable(
    store: &SharedStore,
    name: &impl Fn(&str) -> String,
    raw: impl AsyncFn(&'static str),
) {
    const SPOIL: &str = "UPDATE domain SET labels = 'spoiled' WHERE name LIKE 'spoiled%'";
    const MEND: &str = "UPDATE domain SET labels = '{}' WHERE name LIKE 'spoiled%'";
    add(store, &name("spoiled")).await;
    raw(SPOIL).await;
    assert!(store.claim(&claimant("tourist"), ALL_DUE, HOLD).await.unwrap().work.len() < 200);
    raw(MEND).await;
    for (one, spoil) in [("spoiled-too", true), ("given-back", false)] {
        add(store, &name(one)).await;
        into_queue(store, claimed(store, &name(one)).await).await;
        if spoil {
            raw(SPOIL).await;
            store.admit(&claimant("tourist"), account(store).await, MANY, 1, HOLD).await.unwrap();
            raw(MEND).await;
        } else {
            let admitted = admitted(store, &name(one)).await;
            finish(store, &admitted, Outcome::CaWaits).await;
        }
    }
}

async fn webhooks(store: &SharedStore, round: &str) {
    let secret = Secret::from("whsec_x".to_owned());
    let url = format!("https://{round}.example.com");
    let new = NewWebhook { url, events: vec!["domain.active".to_owned()], secret };
    let webhook = store.keep_webhook(&new).await.unwrap();
    store.webhook_secret(webhook.id).await.unwrap();
    let up_to = EventCursor { id: webhook.after.id + 1, ..webhook.after };
    let messages = ["a", "a", "b"].map(|lane| NewDelivery {
        lane: lane.to_owned(),
        kind: "domain.active".to_owned(),
        body: "{}".to_owned(),
    });
    assert!(store.put_down(&webhook, up_to, &messages).await.unwrap());
    store.webhooks().await.unwrap();
    let claimed = store.claim_deliveries(webhook.id, 10, HOLD).await.unwrap();
    for (one, then) in claimed.iter().zip([Then::Again(LATER), Then::Delivered]) {
        let attempt = Attempt { status: Some(200), error: None, then };
        assert!(store.delivery_tried(one, &attempt).await.unwrap());
    }
    store.deliveries(webhook.id, &PAGE).await.unwrap();
    store.prune_deliveries(None, 1, 10).await.unwrap();
    let domain = store.domains(&DomainFilter::default(), &PAGE).await.unwrap().items[0].id;
    store.was_active_before(domain, store.latest_event().await.unwrap()).await.unwrap();
    assert!(store.remove_webhook(webhook.id).await.unwrap());
}

async fn accounts(store: &SharedStore, raw: &impl AsyncFn(&'static str)) {
    let id = account(store).await;
    raw(WAITING_FOR_US).await;
    store.account_registered(id, "https://ca.test/account/1", None).await.unwrap();
    store.account(DIRECTORY, MANY).await.unwrap().unwrap();
    store.journal_next_key(id, &Secret::from("next".to_owned())).await.unwrap();
    store.account_key_changed(id).await.unwrap();
    store.pause_account(id, Duration::from_millis(1), "slow down").await.unwrap();
    let name = host("waits.example.com");
    for scope in WaitScope::ALL {
        store.note_wait(id, *scope, &name, LATER, "too many").await.unwrap();
        store.waits(id, *scope, 10).await.unwrap();
        store.waits_noted(id, *scope, LATER, 10).await.unwrap();
    }
    store.waiting_for(id, &name).await.unwrap().unwrap();
    assert!(store.lift_waits(id, &name).await.unwrap() > 0);
    store.mark_account(id, Some("it is deactivated")).await.unwrap();
    store.pin_issuer(id, "the issuer").await.unwrap();
    store.unpin_issuer(id).await.unwrap();
    let moment = Duration::from_secs(2);
    store.note_failure(id, "tourist", "ca-unreachable: no route", moment).await.unwrap();
    assert!(!store.is_failure_lifted(id, "tourist").await.unwrap());
    store.end_failure(id, "tourist").await.unwrap();
    store.account_forgotten(id).await.unwrap();
    store.halt_account(id, Some(LATER), &actor(), "ca.test").await.unwrap();
    assert_eq!(store.ca_accounts(MANY).await.unwrap().len(), 1);
    assert!(store.resume_account(id, &actor(), "ca.test").await.unwrap());
    store.queue_counts().await.unwrap();
    store.keep_terms(DIRECTORY, "https://ca.test/terms", true).await.unwrap();
    store.terms(DIRECTORY).await.unwrap();
}

async fn singletons(
    store: &SharedStore,
    name: &impl Fn(&str) -> String,
    raw: impl AsyncFn(&'static str),
) {
    let alert = |subject: String| StandingAlert {
        code: "edge-stale".to_owned(),
        subject,
        detail: String::new(),
    };
    store.settle_alerts(None, &actor(), &[alert(name("edge"))]).await.unwrap();
    store.settle_alerts(None, &actor(), &[]).await.unwrap();
    store.settle_expiring(None, &actor(), 500).await.unwrap();
    store.notice(&actor(), "tested", "here", "told").await.unwrap();
    store.fold_counts(None).await.unwrap();
    store.count_edges(None).await.unwrap();
    raw(ENDED).await;
    for what in Outdated::ALL {
        store.prune(None, what, Duration::ZERO, 100).await.unwrap();
    }
    store.prune_lease_history(None, Duration::ZERO, 100).await.unwrap();
    store.check_fence(None).await.unwrap();
    store.refresh_statistics(None).await.unwrap();
    let (mut late, now) = (certificate(&name("late"), DIRECTORY), store.ping().await.unwrap());
    late.summary.not_after = now.plus(LATER);
    let import = Some(Import { certificate: late });
    store.add(&NewDomain { import, ..fresh(&name("late")) }).await.unwrap();
    store.sweep_renewals(None, None, 100).await.unwrap();
    store.move_from(None, Some("https://old.test")).await.unwrap();
    store.moving_from().await.unwrap();
    store.may_be_used_by_others().await.unwrap();
    store.want_moved(None, "https://old.test", 10, &actor()).await.unwrap();
    store.move_from(None, None).await.unwrap();
    let run = TaskRun {
        name: name("task"),
        lease: "maintenance".to_owned(),
        instance: "here".to_owned(),
        runs: 1,
        took: Duration::ZERO,
        ok: true,
        outcome: "done".to_owned(),
        next_in: LATER,
    };
    store.record_task(None, &run).await.unwrap();
    store.tasks().await.unwrap();
    for kept in [LeaseHome::Here, LeaseHome::Registered] {
        let (lease, incarnation) = ("maintenance".to_owned(), uuid::Uuid::new_v4());
        let fence = Fence { lease, term: 7, incarnation, limit: LATER, kept };
        store.check_fence(Some(&fence)).await.ok();
    }
}

async fn moments(store: &SharedStore, raw: &impl AsyncFn(&'static str)) {
    raw(WRITTEN_IN_THE_FUTURE).await;
    raw(FULL_IN_THE_FUTURE).await;
    store.doubt_ages(Some(LATER)).await.unwrap();
    assert!(store.are_ages_doubtful().await.unwrap());
    store.out_of_bounds().await.unwrap();
    for search in [Search::Impossible, Search::Suspicious] {
        store.bring_back(None, search, 100).await.unwrap();
    }
    raw(FULL_IN_THE_FUTURE).await;
    store.admit(&claimant("tourist"), account(store).await, MANY, 1, HOLD).await.unwrap();
    raw(FULL).await;
    store.doubt_ages(None).await.unwrap();
}

async fn replicas(store: &SharedStore, round: &str) {
    let incarnation = uuid::Uuid::new_v4();
    let new = NewReplica {
        instance: round.to_owned(),
        incarnation,
        url: "http://here".to_owned(),
        role: "all".to_owned(),
        version: "1".to_owned(),
    };
    store.register_replica(&new, LATER).await.unwrap();
    let beat = store.beat(round, incarnation, false, LATER).await.unwrap();
    assert!(matches!(beat, Beat::Heard(_)), "{beat:?}");
    store.beat(round, uuid::Uuid::new_v4(), false, LATER).await.unwrap();
    store.replicas(LATER).await.unwrap();
    store.serve_directory(round, incarnation, DIRECTORY).await.unwrap();
    store.other_accounts("https://new.test", LATER).await.unwrap();
    store.deregister_replica(round, incarnation).await.unwrap();
    store.prune_replicas(None, Duration::ZERO).await.unwrap();
}

async fn keys(store: &SharedStore, key: &MasterKey, raw: impl AsyncFn(&'static str)) {
    store.cluster_secret().await.unwrap();
    store.new_data_key().await.unwrap();
    raw(KEY_IS_NEW).await;
    store.sealed_before(10).await.unwrap();
    let mut resealing = Resealing::default();
    while resealing.step(store, 10, &actor()).await.unwrap().is_none() {}
    store.is_rotating().await.unwrap();
    store.rewrap(key).await.unwrap();
}
