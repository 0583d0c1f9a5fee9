//! A domain that goes the whole way, and what is read of it on the way.

use holdfast_model::State;
use holdfast_store::{EventBody, Page, SharedStore};

use crate::kit::*;

on_both! {
    from_added_to_active,
    what_never_was_is_not_found,
}

async fn from_added_to_active(store: SharedStore) {
    use State::*;
    let domain = active(&store, "shop.example.com", "1").await;
    assert_eq!(domain.state, Active);
    let read = store.domain(domain.id).await.unwrap().unwrap();
    assert_eq!(read, domain);
    assert!(!read.order_open && read.queued_at.is_none() && read.last_error.is_none());
    let history = store.history(domain.id, &Page { limit: 100, after: None }).await.unwrap().items;
    let to: Vec<_> = history
        .iter()
        .map(|event| match event.body {
            EventBody::Transition { to: Some(to), .. } => to,
            ref body => panic!("{body:?}"),
        })
        .collect();
    assert_eq!(
        to,
        [
            Initial,
            DnsVerifying,
            DnsVerified,
            AcmeOrdering,
            AcmeOrderCreated,
            AcmeChallengePreparing,
            AcmeChallengePrepared,
            AcmeChallengeValidating,
            AcmeChallengeValidated,
            CertificateDownloading,
            CertificateDownloaded,
            CertificateDeploying,
            CertificateDeployed,
            Active,
        ]
    );
    // It rests until its certificate is to be looked at.
    let idle = store.claim(&claimant("w"), 10, HOLD).await.unwrap();
    assert!(idle.work.is_empty());
    assert_eq!(idle.next_due_at, read.next_attempt_at);
}

async fn what_never_was_is_not_found(store: SharedStore) {
    let id = holdfast_model::DomainId::new();
    assert!(store.domain(id).await.unwrap().is_none());
    assert!(store.domain_named(&host("no.example.com")).await.unwrap().is_none());
    assert!(store.bundle(id).await.unwrap().is_none());
    assert!(store.open_order(id).await.unwrap().is_none());
    assert_eq!(store.deployment(id).await.unwrap(), Default::default());
    assert!(store.history(id, &Page { limit: 5, after: None }).await.unwrap().items.is_empty());
}
