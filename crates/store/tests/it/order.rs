//! Orders: journaled from before they are made until they end, so that whoever takes over goes on with the same.

use holdfast_model::{Note, Outcome, State};
use holdfast_store::{ChallengeKind, NewChallenge, Products, SharedStore};

use crate::kit::*;

on_both! {
    an_order_is_journaled_step_by_step,
    it_is_remembered_since_when_a_certificate_is_not_to_be_had,
    a_challenge_is_answered_while_its_order_is_open,
    a_token_given_again_belongs_to_the_newer_order,
    an_alpn_answer_is_found_by_name,
    a_failed_challenge_ends_the_order,
}

async fn admitted(store: &SharedStore) -> holdfast_store::Claimed {
    add(store, "shop.example.com").await;
    let who = claimant("w");
    into_queue(store, claim_one(store, &who).await).await;
    admit_one(store, &who, account(store).await).await
}

async fn an_order_is_journaled_step_by_step(store: SharedStore) {
    let admitted = admitted(&store).await;
    let id = admitted.domain.id;
    let open = store.open_order(id).await.unwrap().unwrap();
    assert_eq!((Some(open.id), open.domain), (admitted.order, id));
    assert!(
        open.url.is_none() && open.key.is_none() && open.csr.is_none() && open.challenge.is_none()
    );
    let downloading = into_download(&store, admitted, "t1").await;
    assert_eq!(downloading.domain.state, State::CertificateDownloading);
    let open = store.open_order(id).await.unwrap().unwrap();
    assert_eq!(open.url.as_deref(), Some("https://ca.test/order/t1"));
    assert_eq!(open.challenge, Some(challenge("t1")));
    assert_eq!(open.key.unwrap().expose(), b"key t1");
    assert_eq!(open.csr.as_deref(), Some([1, 2, 3].as_slice()));
    issue(&store, &downloading, "1").await;
    assert!(store.open_order(id).await.unwrap().is_none());
}

async fn it_is_remembered_since_when_a_certificate_is_not_to_be_had(store: SharedStore) {
    let admitted = admitted(&store).await;
    let id = admitted.domain.id;
    let mut downloading = into_download(&store, admitted, "token").await;
    let trouble = async || store.open_order(id).await.unwrap().unwrap().trouble;
    assert_eq!(trouble().await, None);
    let mut since = Vec::new();
    for kind in [Some("gone"), Some("gone"), None, Some("nonsense"), Some("nonsense")] {
        let products = Products { order_trouble: kind, ..Products::default() };
        let processing = Outcome::OrderProcessing { retry_after: None };
        downloading = step(&store, &downloading, processing, products).await;
        let kept = trouble().await.unwrap();
        assert_eq!(kept.kind, kind.unwrap_or("gone"));
        since.push(kept.since);
    }
    assert!(since[0] == since[1] && since[1] == since[2], "{since:?}");
    assert!(since[2] < since[3] && since[3] == since[4], "{since:?}");
}

async fn a_challenge_is_answered_while_its_order_is_open(store: SharedStore) {
    assert!(store.challenge_answer("t1").await.unwrap().is_none());
    assert!(
        store.challenge_answer("no\0thing '; DROP TABLE challenge; --").await.unwrap().is_none()
    );
    let downloading = into_download(&store, admitted(&store).await, "t1").await;
    let answer = store.challenge_answer("t1").await.unwrap().unwrap();
    assert_eq!(answer.name, downloading.domain.name);
    assert_eq!(answer.key_authorization, "t1.thumbprint");
    assert!(store.alpn_answer(&answer.name).await.unwrap().is_none());
    issue(&store, &downloading, "1").await;
    assert!(store.challenge_answer("t1").await.unwrap().is_none());
}

async fn a_token_given_again_belongs_to_the_newer_order(store: SharedStore) {
    let first = into_download(&store, admitted(&store).await, "t1").await;
    let note = Note::new("gone", "expired");
    let failed = step(&store, &first, Outcome::OrderGone { note }, Products::default()).await;
    finish(&store, &failed, Outcome::TimeToRetry).await;
    let who = claimant("w");
    let second = admit_one(&store, &who, account(&store).await).await;
    assert_ne!(second.order, first.order);
    let second = into_download(&store, second, "t1").await;
    assert_eq!(
        store.open_order(second.domain.id).await.unwrap().unwrap().challenge,
        Some(challenge("t1"))
    );
    assert!(store.challenge_answer("t1").await.unwrap().is_some());
}

async fn an_alpn_answer_is_found_by_name(store: SharedStore) {
    let url =
        Products { order_url: Some("https://ca.test/order/1".to_owned()), ..Products::default() };
    let preparing = step(&store, &admitted(&store).await, Outcome::OrderCreated, url).await;
    let alpn = NewChallenge { kind: ChallengeKind::TlsAlpn01, ..challenge("t1") };
    let products = Products { challenge: Some(alpn), ..Products::default() };
    step(&store, &preparing, Outcome::ChallengeReady, products).await;
    let answer = store.alpn_answer(&preparing.domain.name).await.unwrap().unwrap();
    assert_eq!(
        (answer.kind, answer.key_authorization.as_str()),
        (ChallengeKind::TlsAlpn01, "t1.thumbprint")
    );
}

async fn a_failed_challenge_ends_the_order(store: SharedStore) {
    let url =
        Products { order_url: Some("https://ca.test/order/1".to_owned()), ..Products::default() };
    let preparing = step(&store, &admitted(&store).await, Outcome::OrderCreated, url).await;
    let answer = Products { challenge: Some(challenge("t1")), ..Products::default() };
    let prepared = step(&store, &preparing, Outcome::ChallengeReady, answer).await;
    // Trouble leaves the order open, to be gone on with; a refusal spends it.
    let parked =
        step(&store, &prepared, Outcome::trouble("ca-500", "oops"), Products::default()).await;
    assert!(parked.domain.order_open);
    let again = step(&store, &parked, Outcome::TimeToRetry, Products::default()).await;
    assert_eq!((again.domain.state, again.order), (State::AcmeChallengePreparing, preparing.order));
    let note = Note::new("unauthorized", "wrong answer");
    let failed =
        step(&store, &again, Outcome::ChallengeInvalid { note }, Products::default()).await;
    assert!(!failed.domain.order_open);
    assert!(store.challenge_answer("t1").await.unwrap().is_none());
}
