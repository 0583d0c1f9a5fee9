//! People's requests: noted beside the work, never in its way, never lost.

use std::collections::BTreeMap;

use holdfast_model::{DomainId, Note, Outcome, State, Wanted};
use holdfast_store::{
    DomainPatch, Error, Event, EventBody, EventCursor, Products, Secret, SharedStore,
};

use crate::kit::*;

on_both! {
    a_request_makes_it_due_and_leaves_the_version,
    a_request_during_a_claim_is_not_lost,
    a_request_made_twice_during_a_claim_is_not_lost,
    a_request_that_is_kept_waits_for_the_certificate,
    an_answered_request_is_done_with,
    a_change_during_a_claim_loses_nothing,
    who_asked_is_told,
    asking_for_what_never_was_is_an_error,
    a_change_is_compared_and_conflicts_are_told,
}

/// A domain that failed its DNS check, under slow watch.
async fn failed(store: &SharedStore) -> DomainId {
    let domain = add(store, "shop.example.com").await;
    let looking = step(
        store,
        &claim_one(store, &claimant("w")).await,
        Outcome::Accepted,
        Products::default(),
    )
    .await;
    let note = Note::new("dns-nxdomain", "no such name");
    let mut claimed = looking;
    while claimed.domain.state != State::DnsVerificationFailed {
        let outcome = Outcome::DnsNotPointed { note: note.clone() };
        claimed = step(store, &claimed, outcome, Products::default()).await;
    }
    store.unclaim(&claimant("none"), &[]).await.unwrap();
    finish(store, &claimed, Outcome::DnsNotPointed { note }).await;
    domain.id
}

async fn a_request_makes_it_due_and_leaves_the_version(store: SharedStore) {
    let id = failed(&store).await;
    let before = store.domain(id).await.unwrap().unwrap();
    assert!(claim_all(&store, &claimant("w")).await.is_empty());
    store.want(id, Wanted::Retry, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    assert_eq!(claimed.domain.wanted, Some(Wanted::Retry));
    assert_eq!(claimed.domain.version, before.version);
}

async fn a_request_during_a_claim_is_not_lost(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let who = claimant("w");
    let claimed = claim_one(&store, &who).await;
    store.want(claimed.domain.id, Wanted::Retry, &actor()).await.unwrap();
    // Nobody takes it out of the worker's hands.
    assert!(claim_all(&store, &claimant("other")).await.is_empty());
    let commit = commit_of(&store, &claimed, &Outcome::Accepted, Products::default(), false).await;
    let later = store.ping().await.unwrap().plus(HOLD);
    let mut commit = holdfast_store::Commit { answers_request: false, ..commit };
    commit.transition.next_attempt_at = Some(later);
    let after = store.commit(&claimed, &commit).await.unwrap();
    assert_eq!(after.domain.wanted, Some(Wanted::Retry));
    assert_eq!(claim_one(&store, &who).await.domain.wanted, Some(Wanted::Retry));
}

async fn a_request_made_twice_during_a_claim_is_not_lost(store: SharedStore) {
    let id = failed(&store).await;
    let who = claimant("w");
    store.want(id, Wanted::Retry, &actor()).await.unwrap();
    let claimed = claim_one(&store, &who).await;
    store.want(id, Wanted::Retry, &actor()).await.unwrap();
    // The worker answers the request it saw; the second one came after that.
    let after = finish(&store, &claimed, Outcome::TimeToRetry).await;
    assert_eq!(after.domain.wanted, Some(Wanted::Retry));
    let again = claim_one(&store, &who).await;
    let answered = step(&store, &again, Outcome::Accepted, Products::default()).await;
    assert_eq!(answered.domain.wanted, None);
}

/// A request that the worker saw and keeps is not looked at without end, and is answered by the certificate.
async fn a_request_that_is_kept_waits_for_the_certificate(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let who = claimant("w");
    into_queue(&store, claim_one(&store, &who).await).await;
    let account = account(&store).await;
    let admitted = admit_one(&store, &who, account).await;
    let id = admitted.domain.id;
    let url =
        Products { order_url: Some("https://ca.test/order/1".to_owned()), ..Products::default() };
    let preparing = step(&store, &admitted, Outcome::OrderCreated, url).await;
    store.want(id, Wanted::Renew, &actor()).await.unwrap();
    let prepared = Products { challenge: Some(challenge("t1")), ..Products::default() };
    let seen = step(&store, &preparing, Outcome::ChallengeReady, prepared).await;
    assert_eq!(seen.domain.wanted, Some(Wanted::Renew));
    let told = step(&store, &seen, Outcome::ChallengeAccepted, Products::default()).await;
    let pending = Outcome::ChallengePending { retry_after: None };
    let waiting = finish(&store, &told, pending).await;
    assert_eq!(waiting.domain.wanted, Some(Wanted::Renew));
    assert!(claim_all(&store, &who).await.is_empty(), "it is due at once");
    // Asked for once more, it is looked at once more.
    store.want(id, Wanted::Renew, &actor()).await.unwrap();
    let again = claim_one(&store, &who).await;
    let pair = (Secret::from("key".to_owned()), vec![1, 2, 3]);
    let journal = Products { key_and_csr: Some(pair), ..Products::default() };
    let downloading = step(&store, &again, Outcome::ChallengeValid, journal).await;
    // And while the certificate is being stored.
    store.want(id, Wanted::Renew, &actor()).await.unwrap();
    let issued = issue(&store, &downloading, "1").await;
    assert_eq!(issued.domain.wanted, None);
    let since = store.domain(id).await.unwrap().unwrap().certificate_since;
    assert!(since.is_some() && issued.domain.certificate_since == since, "{since:?}");
}

async fn an_answered_request_is_done_with(store: SharedStore) {
    let id = failed(&store).await;
    store.want(id, Wanted::Retry, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    let after = step(&store, &claimed, Outcome::TimeToRetry, Products::default()).await;
    assert_eq!((after.domain.wanted, after.domain.state), (None, State::DnsVerifying));
    assert_eq!(after.domain.failures, 0);
}

async fn a_change_during_a_claim_loses_nothing(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let who = claimant("w");
    into_queue(&store, claim_one(&store, &who).await).await;
    let account = account(&store).await;
    let admitted = admit_one(&store, &who, account).await;
    let patch = DomainPatch { tenant: Some(Some("t".to_owned())), ..DomainPatch::default() };
    let changed = store.patch(admitted.domain.id, None, &patch, &actor()).await.unwrap();
    assert_eq!(changed.version, admitted.domain.version + 1);
    // The order that was just made is not lost for it.
    let url =
        Products { order_url: Some("https://ca.test/order/1".to_owned()), ..Products::default() };
    let after = step(&store, &admitted, Outcome::OrderCreated, url).await;
    assert_eq!(after.domain.tenant.as_deref(), Some("t"));
    assert_eq!(after.domain.version, changed.version + 1);
    let order = store.open_order(admitted.domain.id).await.unwrap().unwrap();
    assert_eq!(order.url.as_deref(), Some("https://ca.test/order/1"));
    let prepared = Products { challenge: Some(challenge("t1")), ..Products::default() };
    step(&store, &after, Outcome::ChallengeReady, prepared).await;
}

async fn who_asked_is_told(store: SharedStore) {
    let domain = add(&store, "shop.example.com").await;
    store.want(domain.id, Wanted::Renew, &actor()).await.unwrap();
    store.remove(domain.id, false, &actor()).await.unwrap();
    store.remove(domain.id, true, &actor()).await.unwrap();
    let events = store.events_after(EventCursor::default(), 100).await.unwrap();
    let notices: Vec<_> = events
        .iter()
        .filter_map(|Event { body, actor, .. }| match body {
            EventBody::Notice { kind, subject, detail } => {
                Some((kind.as_str(), subject.as_str(), detail.as_str(), actor.name.as_str()))
            }
            EventBody::Transition { .. } => None,
        })
        .collect();
    let name = "shop.example.com";
    assert_eq!(
        notices,
        [("domain-wanted", name, "renew", "tester"), ("domain-removing", name, "", "tester")]
    );
    // Asked for again with revocation: that much more is done.
    assert!(store.domain(domain.id).await.unwrap().unwrap().revoke_on_removal);
}

async fn asking_for_what_never_was_is_an_error(store: SharedStore) {
    let (id, actor) = (DomainId::new(), actor());
    let not_found = |result: Result<(), Error>| matches!(result, Err(Error::NotFound("domain")));
    assert!(not_found(store.want(id, Wanted::Retry, &actor).await));
    assert!(not_found(store.remove(id, false, &actor).await));
    let patched = store.patch(id, None, &DomainPatch::default(), &actor).await;
    assert!(not_found(patched.map(|_| ())));
    let gone = add(&store, "shop.example.com").await.id;
    remove(&store, gone).await;
    assert!(not_found(store.want(gone, Wanted::Retry, &actor).await));
    let patched = store.patch(gone, None, &DomainPatch::default(), &actor).await;
    assert!(not_found(patched.map(|_| ())));
    store.remove(gone, false, &actor).await.unwrap();
}

async fn a_change_is_compared_and_conflicts_are_told(store: SharedStore) {
    let taken =
        holdfast_store::NewDomain { resource: Some("r".to_owned()), ..fresh("a.example.com") };
    store.add(&taken).await.unwrap();
    let domain = add(&store, "b.example.com").await;
    let labels = Some(BTreeMap::from([("k".to_owned(), "v".to_owned())]));
    let patch = DomainPatch { labels, ..DomainPatch::default() };
    let stale = store.patch(domain.id, Some(7), &patch, &actor()).await.unwrap_err();
    assert!(matches!(stale, Error::VersionMismatch { expected: 7, seen: 1 }), "{stale}");
    let changed = store.patch(domain.id, Some(1), &patch, &actor()).await.unwrap();
    assert_eq!((changed.version, changed.labels.len()), (2, 1));
    let resource =
        |to: &str| DomainPatch { resource: Some(to.to_owned()), ..DomainPatch::default() };
    let refused = store.patch(domain.id, None, &resource("r"), &actor()).await.unwrap_err();
    assert!(
        matches!(&refused, Error::ResourceInUse(holder) if holder.resource == "r"),
        "{refused}"
    );
    store.patch(domain.id, None, &resource("s"), &actor()).await.unwrap();
    assert_eq!(store.claim_on("s").await.unwrap().unwrap().domain_id, Some(domain.id));
    assert!(store.claim_on(&domain.id.to_string()).await.unwrap().is_none());
    let clear = DomainPatch { tenant: Some(None), ..DomainPatch::default() };
    assert_eq!(store.patch(domain.id, None, &clear, &actor()).await.unwrap().tenant, None);
}
