//! What an engine would do to a domain, in a few words.

use std::time::Duration;

use holdfast_model::{Note, Outcome, Policy, WaitScope, decide};
use holdfast_store::{
    Account, Actor, ChallengeKind, Commit, NewAccount, NewChallenge, Products, Secret,
};

use crate::kit::{DIRECTORY, Kit, LIMITS, worker};

/// The account at the CA, registered.
pub(crate) async fn account(kit: &Kit) -> Account {
    let key = Secret::new(vec![1; 32]);
    let new = NewAccount { directory: DIRECTORY.into(), key, email: None };
    let account = kit.store.journal_account(&new).await.unwrap();
    kit.store.account_registered(account.id, "https://ca.example/acct/1", None).await.unwrap();
    account
}

/// Brings the one domain there is into the queue for an order.
pub(crate) async fn queued(kit: &Kit) {
    kit.work(Outcome::Accepted, Products::default()).await;
    kit.work(Outcome::DnsPointed, Products::default()).await;
}

/// Has the CA refuse an order for the one domain there is, which is about that name.
pub(crate) async fn refused(kit: &Kit, scope: WaitScope, words: &str) {
    let account = account(kit).await;
    queued(kit).await;
    let hold = Duration::from_secs(30);
    let admitted = kit.store.admit(&worker(), account.id, LIMITS, 1, hold).await.unwrap();
    let claimed = admitted.work.into_iter().next().expect("an order may be made");
    let wait = scope.bounded(None);
    let noted = kit.store.note_wait(account.id, scope, &claimed.domain.name, wait, words).await;
    let note = Note::new("acme-rate-limited", words);
    let outcome = Outcome::Deferred { until: noted.unwrap(), note };
    let commit = Commit {
        transition: decide(&claimed.domain, &outcome, &Policy::default(), admitted.now),
        products: Products::default(),
        answers_request: false,
        keep_claim: false,
        actor: Actor { instance: "replica".into(), name: "worker".into() },
    };
    kit.store.commit(&claimed, &commit).await.unwrap();
}

/// Brings the one domain there is to where its challenge is answered.
pub(crate) async fn prepared(kit: &Kit, token: &str, key_authorization: &str) {
    let account = account(kit).await;
    queued(kit).await;
    let hold = Duration::from_secs(30);
    let admitted = kit.store.admit(&worker(), account.id, LIMITS, 1, hold).await.unwrap();
    let claimed = admitted.work.into_iter().next().expect("an order may be made");
    let url = "https://ca.example/order/1".to_owned();
    let commit = Commit {
        transition: decide(
            &claimed.domain,
            &Outcome::OrderCreated,
            &Policy::default(),
            admitted.now,
        ),
        products: Products { order_url: Some(url), ..Products::default() },
        answers_request: false,
        keep_claim: false,
        actor: Actor { instance: "replica".into(), name: "worker".into() },
    };
    kit.store.commit(&claimed, &commit).await.unwrap();
    let challenge = NewChallenge {
        kind: ChallengeKind::Http01,
        token: token.into(),
        key_authorization: key_authorization.into(),
        url: "https://ca.example/challenge/1".into(),
        authorization_url: "https://ca.example/authz/1".into(),
    };
    let products = Products { challenge: Some(challenge), ..Products::default() };
    kit.work(Outcome::ChallengeReady, products).await;
}

/// Takes one domain on, and answers what was asked of it.
pub(crate) async fn step(kit: &Kit, name: &str, outcome: Outcome, products: Products) {
    let batch = kit.store.claim(&worker(), 100, Duration::from_secs(30)).await.unwrap();
    let (mine, others): (Vec<_>, Vec<_>) =
        batch.work.into_iter().partition(|claimed| claimed.domain.name.as_str() == name);
    let others: Vec<_> = others.iter().map(|other| (other.domain.id, other.epoch)).collect();
    kit.store.unclaim(&worker(), &others).await.unwrap();
    let claimed = mine.first().expect("it is due");
    let commit = Commit {
        transition: decide(&claimed.domain, &outcome, &Policy::default(), batch.now),
        products,
        answers_request: claimed.domain.wanted.is_some(),
        keep_claim: false,
        actor: Actor { instance: "replica".into(), name: "worker".into() },
    };
    kit.store.commit(claimed, &commit).await.unwrap();
}
