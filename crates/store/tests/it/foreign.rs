//! What this release cannot read, or must not touch: left alone, shown as it is, and in nobody's way.

use holdfast_model::{Facts, Outcome, State, Timestamp, Who, explain};
use holdfast_store::{DomainFilter, Error, Page, Products};

use crate::{kit::*, raw::Raw};

raw_on_both! {
    an_unknown_state_is_left_alone_and_shown,
    an_unknown_request_is_left_alone,
    a_row_that_cannot_be_read_is_put_aside,
    a_row_that_cannot_be_read_leaves_the_queue,
    a_secret_that_does_not_open_harms_nobody_else,
    a_chain_that_was_altered_is_not_given_to_anybody,
    another_start_of_the_same_claim_is_lost,
}

const PAGE: Page = Page { limit: 10, after: None };

async fn an_unknown_state_is_left_alone_and_shown(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    let strange = add(store, "a.example.com").await;
    let known = add(store, "b.example.com").await;
    raw.execute("UPDATE domain SET state = 'Dreaming' WHERE name = 'a.example.com'").await;
    assert_eq!(claim_one(store, &who).await.domain.id, known.id);
    // Due as it is, nobody is told to look again at once.
    let again = store.claim(&who, 10, HOLD).await.unwrap();
    assert!(again.work.is_empty());
    assert!(again.next_due_at.is_none_or(|next| next > again.now));
    let listed = store.domains(&DomainFilter::default(), &PAGE).await.unwrap().items;
    let shown: Vec<_> = listed.iter().map(holdfast_model::Domain::state_name).collect();
    assert_eq!(shown, ["Dreaming", "Initial"]);
    let domain = store.domain(strange.id).await.unwrap().unwrap();
    assert_eq!(store.domain_named(&strange.name).await.unwrap().unwrap(), domain);
    let explanation = explain(&domain, &Facts::default());
    assert_eq!((explanation.cause.as_str(), explanation.who), ("unknown-state", Who::Operator));
    assert!(explanation.summary.contains("Dreaming"), "{}", explanation.summary);
    // A person may ask: who knows the state will see it.
    store.want(strange.id, holdfast_model::Wanted::Retry, &actor()).await.unwrap();
    assert!(claim_all(store, &who).await.is_empty());
}

async fn an_unknown_request_is_left_alone(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    add_numbered(store, 2).await;
    raw.execute("UPDATE domain SET wanted = 'dance' WHERE name = 'n00000.example.com'").await;
    let claimed = claim_one(store, &who).await;
    assert_eq!(claimed.domain.name.as_str(), "n00001.example.com");
    into_queue(store, claimed).await;
    raw.execute("UPDATE domain SET wanted = 'dance'").await;
    let account = account(store).await;
    assert!(store.admit(&who, account, MANY, 10, HOLD).await.unwrap().work.is_empty());
}

async fn a_row_that_cannot_be_read_is_put_aside(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    add_numbered(store, 3).await;
    raw.execute("UPDATE domain SET labels = 'no JSON' WHERE name = 'n00001.example.com'").await;
    let work = claim_all(store, &who).await;
    assert_eq!(work.len(), 2);
    for claimed in &work {
        step(store, claimed, Outcome::Accepted, Products::default()).await;
    }
    let held = "SELECT count(*) FROM domain WHERE name = 'n00001.example.com' AND claimed_until IS NOT NULL";
    assert_eq!(raw.number(held).await, 0);
    let again = store.claim(&who, 10, HOLD).await.unwrap();
    assert!(again.work.is_empty() && again.next_due_at.is_some_and(|next| next > again.now));
    assert_eq!(store.domains(&DomainFilter::default(), &PAGE).await.unwrap().items.len(), 2);
    // Mended, and asked for by a person, it goes on.
    raw.execute("UPDATE domain SET labels = '{}' WHERE name = 'n00001.example.com'").await;
    let mended = store.domain_named(&host("n00001.example.com")).await.unwrap().unwrap();
    store.want(mended.id, holdfast_model::Wanted::Retry, &actor()).await.unwrap();
    let claimed = claim_one(store, &who).await;
    assert_eq!((claimed.domain.id, claimed.domain.lapses), (mended.id, 0));
}

async fn a_row_that_cannot_be_read_leaves_the_queue(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    add_numbered(store, 3).await;
    let account = account(store).await;
    for claimed in claim_all(store, &who).await {
        into_queue(store, claimed).await;
    }
    raw.execute("UPDATE domain SET labels = 'no JSON' WHERE name = 'n00000.example.com'").await;
    // One at a time: what stands first and cannot be read must not stand in the way for ever.
    let mut admitted = Vec::new();
    for _ in 0..3 {
        let one = holdfast_store::OrderLimits { per_3h: 10, in_flight: 2 };
        let work = store.admit(&who, account, one, 1, HOLD).await.unwrap().work;
        admitted.extend(work.into_iter().map(|claimed| claimed.domain.name.to_string()));
    }
    admitted.sort();
    assert_eq!(admitted, ["n00001.example.com", "n00002.example.com"]);
    assert_eq!(raw.number("SELECT count(*) FROM acme_order").await, 2);
    // Mended, it finds its way back into the queue.
    raw.execute(
        "UPDATE domain SET labels = '{}', due_at = created_at WHERE name = 'n00000.example.com'",
    )
    .await;
    let mended = claim_one(store, &who).await;
    assert_eq!((mended.domain.state, mended.order), (State::AcmeOrdering, None));
    finish(store, &mended, Outcome::CaWaits).await;
    admit_one(store, &who, account).await;
}

async fn a_secret_that_does_not_open_harms_nobody_else(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    let broken = active(store, "a.example.com", "1").await;
    let whole = active(store, "b.example.com", "2").await;
    // Another row's value: well sealed, and not for this place.
    raw.execute(
        "UPDATE sealed SET value = (SELECT value FROM sealed WHERE owner = 'account') WHERE owner = 'certificate'
         AND id = (SELECT certificate_id FROM domain WHERE name = 'a.example.com')",
    )
    .await;
    assert!(matches!(store.bundle(broken.id).await, Err(Error::Unsealable(_))));
    assert!(store.bundle(whole.id).await.unwrap().is_some());
    assert_eq!(store.domains(&DomainFilter::default(), &PAGE).await.unwrap().items.len(), 2);
    for domain in [&broken, &whole] {
        store.want(domain.id, holdfast_model::Wanted::Renew, &actor()).await.unwrap();
    }
    let work = claim_all(store, &who).await;
    assert_eq!(work.len(), 2);
    for claimed in &work {
        finish(store, claimed, Outcome::RenewalNeeded).await;
    }
    let account = account(store).await;
    assert_eq!(store.admit(&who, account, MANY, 10, HOLD).await.unwrap().work.len(), 2);
}

/// A letter that changed on the disk, after it was written. What an earlier release wrote has no digest to compare with.
async fn a_chain_that_was_altered_is_not_given_to_anybody(raw: Raw) {
    let domain = active(&raw.store, "a.example.com", "1").await;
    let sha256 = domain.certificate.as_ref().unwrap().sha256.clone();
    raw.execute("UPDATE certificate SET chain_pem = 'chain 7'").await;
    let store = &raw.store;
    let read = [
        store.bundle(domain.id).await.err(),
        store.bundle_named(&domain.name).await.err(),
        store.bundle_in("default", &domain.name).await.err(),
        store.bundle_by_sha256(&sha256, None, None).await.err(),
    ];
    for error in read {
        assert!(error.unwrap().is_damage());
    }
    raw.execute("UPDATE certificate SET chain_sha256 = NULL").await;
    assert_eq!(store.bundle(domain.id).await.unwrap().unwrap().chain_pem, "chain 7");
    let imported = store.add(&imported("b.example.com", "2")).await.unwrap().domain;
    assert!(store.bundle(imported.id).await.unwrap().is_some());
    raw.execute("UPDATE certificate SET chain_pem = 'chain 8' WHERE serial = '2'").await;
    assert!(store.bundle(imported.id).await.err().unwrap().is_damage());
    let since = |seconds| store.certificates_since(domain.id, seconds, 2);
    assert_eq!(since(Timestamp::from_seconds(0)).await.unwrap(), 1);
    assert_eq!(since(Timestamp::from_seconds(4_000_000_000)).await.unwrap(), 0);
}

/// A restored backup counts epochs again: another process may hold the very claim, by number, that we had.
async fn another_start_of_the_same_claim_is_lost(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    let domain = add(store, "shop.example.com").await;
    let claimed = claim_one(store, &who).await;
    assert_eq!(claimed.incarnation, Some(who.incarnation));
    raw.execute(&format!("UPDATE domain SET incarnation = {}", raw.some_id())).await;
    let commit = commit_of(store, &claimed, &Outcome::Accepted, Products::default(), true).await;
    assert!(matches!(store.commit(&claimed, &commit).await, Err(Error::ClaimLost)));
    let claims = [(domain.id, claimed.epoch)];
    assert_eq!(store.renew_claims(&who, &claims, HOLD).await.unwrap(), [domain.id]);
    store.unclaim(&who, &claims).await.unwrap();
    assert!(claim_all(store, &who).await.is_empty(), "another's claim was given back");
    store.remove(domain.id, false, &actor()).await.unwrap();
    assert!(matches!(store.begin_teardown(&claimed).await, Err(Error::ClaimLost)));
    assert!(matches!(store.postpone_removal(&claimed, HOLD).await, Err(Error::ClaimLost)));
    assert!(matches!(store.finish_removal(&claimed, &actor()).await, Err(Error::ClaimLost)));
    assert_eq!(store.domain(domain.id).await.unwrap().unwrap().state, State::Initial);
}
