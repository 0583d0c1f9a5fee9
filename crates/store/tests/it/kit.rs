//! What scenarios are made of: stores to run on, domains to add, steps to take.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use holdfast_model::{
    CertificateSummary, Domain, DomainId, Hostname, Outcome, Policy, State, Timestamp, answers,
    decide,
};
use holdfast_store::{
    AccountId, Actor, Added, ChallengeKind, Claimant, Claimed, Commit, Import, MasterKey,
    NewAccount, NewCertificate, NewChallenge, NewDomain, OpenOptions, OrderLimits, Products,
    Secret, SharedStore, open,
};
use holdfast_testkit::{Postgres, Scratch};
use tokio::time::{Instant, interval};
use uuid::Uuid;

pub(crate) const HOLD: Duration = Duration::from_secs(30);
pub(crate) const SOON: Duration = Duration::from_secs(10);
pub(crate) const DIRECTORY: &str = "https://ca.test/directory";
pub(crate) const MANY: OrderLimits = OrderLimits { per_3h: 10_000, in_flight: 10_000 };

/// Makes a test on each database of each scenario.
macro_rules! on_both {
    ($($scenario:ident),* $(,)?) => {
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                super::$scenario($crate::kit::on_postgres().await).await;
            })*
        }
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                let (store, _directory) = $crate::kit::on_sqlite().await;
                super::$scenario(store).await;
            })*
        }
    };
}

pub(crate) async fn on_postgres() -> SharedStore {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    opened(&url, &MasterKey::generate().unwrap()).await
}

pub(crate) async fn on_sqlite() -> (SharedStore, Scratch) {
    let directory = Scratch::new().unwrap();
    let url = format!("sqlite:{}", directory.path().join("holdfast.db").display());
    (opened(&url, &MasterKey::generate().unwrap()).await, directory)
}

pub(crate) async fn opened(url: &str, master: &MasterKey) -> SharedStore {
    open(url, Some(master.clone()), OpenOptions::default()).await.unwrap()
}

pub(crate) fn host(name: &str) -> Hostname {
    Hostname::parse(name).unwrap()
}

pub(crate) fn actor() -> Actor {
    Actor { instance: "here".to_owned(), name: "tester".to_owned() }
}

pub(crate) fn claimant(instance: &str) -> Claimant {
    Claimant { instance: instance.to_owned(), incarnation: Uuid::new_v4() }
}

pub(crate) fn request(name: &str, orchestration: &str) -> NewDomain {
    NewDomain {
        id: DomainId::new(),
        name: host(name),
        tenant: None,
        resource: None,
        target: host("edge.example.net"),
        target_given: false,
        edge_group: "default".to_owned(),
        labels: BTreeMap::new(),
        orchestration_id: orchestration.to_owned(),
        import: None,
        actor: actor(),
    }
}

/// A request of its own orchestration.
pub(crate) fn fresh(name: &str) -> NewDomain {
    request(name, &Uuid::new_v4().to_string())
}

pub(crate) async fn add(store: &SharedStore, name: &str) -> Domain {
    let Added { domain, created } = store.add(&fresh(name)).await.unwrap();
    assert!(created);
    domain
}

pub(crate) async fn add_numbered(store: &SharedStore, count: usize) -> Vec<Domain> {
    let new: Vec<_> = (0..count).map(|n| fresh(&format!("n{n:05}.example.com"))).collect();
    let added = store.add_many(&new).await.unwrap();
    added.into_iter().map(|one| one.unwrap().domain).collect()
}

/// A certificate with nothing real in it but its facts.
pub(crate) fn certificate(serial: &str, directory: &str) -> NewCertificate {
    NewCertificate {
        chain_pem: format!("chain {serial}"),
        key: Secret::from(format!("key {serial}")),
        summary: CertificateSummary {
            serial: serial.to_owned(),
            sha256: format!("sha-{serial}"),
            not_before: Timestamp::from_seconds(1_700_000_000),
            not_after: Timestamp::from_seconds(4_000_000_000),
            issuer: "Test CA".to_owned(),
            directory: directory.to_owned(),
        },
    }
}

pub(crate) fn imported(name: &str, serial: &str) -> NewDomain {
    let import = Some(Import { certificate: certificate(serial, "imported") });
    NewDomain { import, ..fresh(name) }
}

pub(crate) fn challenge(token: &str) -> NewChallenge {
    NewChallenge {
        kind: ChallengeKind::Http01,
        token: token.to_owned(),
        key_authorization: format!("{token}.thumbprint"),
        url: format!("https://ca.test/challenge/{token}"),
        authorization_url: format!("https://ca.test/authorization/{token}"),
    }
}

pub(crate) async fn account(store: &SharedStore) -> AccountId {
    let key = Secret::from("account key".to_owned());
    let new = NewAccount { directory: DIRECTORY.to_owned(), key, email: None };
    store.journal_account(&new).await.unwrap().id
}

/// Claims everything due.
pub(crate) async fn claim_all(store: &SharedStore, who: &Claimant) -> Vec<Claimed> {
    store.claim(who, 10_000, HOLD).await.unwrap().work
}

/// Claims the one domain that is due.
pub(crate) async fn claim_one(store: &SharedStore, who: &Claimant) -> Claimed {
    let mut work = claim_all(store, who).await;
    assert_eq!(work.len(), 1, "{work:?}");
    work.remove(0)
}

pub(crate) async fn admit_one(store: &SharedStore, who: &Claimant, account: AccountId) -> Claimed {
    let mut work = store.admit(who, account, MANY, 10, HOLD).await.unwrap().work;
    assert_eq!(work.len(), 1, "{work:?}");
    work.remove(0)
}

/// What the model decides of an outcome, as a commit.
pub(crate) async fn commit_of(
    store: &SharedStore,
    claimed: &Claimed,
    outcome: &Outcome,
    products: Products,
    keep_claim: bool,
) -> Commit {
    let now = store.ping().await.unwrap();
    let transition = decide(&claimed.domain, outcome, &Policy::default(), now);
    Commit {
        answers_request: answers(&claimed.domain, outcome, &transition),
        transition,
        products,
        keep_claim,
        actor: Actor { instance: "here".to_owned(), name: "worker".to_owned() },
    }
}

/// Takes a step and goes on with it.
pub(crate) async fn step(
    store: &SharedStore,
    claimed: &Claimed,
    outcome: Outcome,
    products: Products,
) -> Claimed {
    let commit = commit_of(store, claimed, &outcome, products, true).await;
    store.commit(claimed, &commit).await.unwrap()
}

/// Takes a step and lets go.
pub(crate) async fn finish(store: &SharedStore, claimed: &Claimed, outcome: Outcome) -> Claimed {
    let commit = commit_of(store, claimed, &outcome, Products::default(), false).await;
    store.commit(claimed, &commit).await.unwrap()
}

/// From a new domain into the queue for orders.
pub(crate) async fn into_queue(store: &SharedStore, claimed: Claimed) -> Claimed {
    let looking = step(store, &claimed, Outcome::Accepted, Products::default()).await;
    let queued = step(store, &looking, Outcome::DnsPointed, Products::default()).await;
    assert_eq!(queued.domain.state, State::AcmeOrdering);
    queued
}

/// From the queue to an order at the CA with key and CSR journaled.
pub(crate) async fn into_download(store: &SharedStore, admitted: Claimed, token: &str) -> Claimed {
    let url = Products {
        order_url: Some(format!("https://ca.test/order/{token}")),
        ..Products::default()
    };
    let preparing = step(store, &admitted, Outcome::OrderCreated, url).await;
    let answer = Products { challenge: Some(challenge(token)), ..Products::default() };
    let prepared = step(store, &preparing, Outcome::ChallengeReady, answer).await;
    let validating = step(store, &prepared, Outcome::ChallengeAccepted, Products::default()).await;
    let pair = (Secret::from(format!("key {token}")), vec![1, 2, 3]);
    let journal = Products { key_and_csr: Some(pair), ..Products::default() };
    step(store, &validating, Outcome::ChallengeValid, journal).await
}

pub(crate) async fn issue(store: &SharedStore, downloading: &Claimed, serial: &str) -> Claimed {
    let products =
        Products { certificate: Some(certificate(serial, DIRECTORY)), ..Products::default() };
    step(store, downloading, Outcome::CertificateIssued, products).await
}

/// A domain with a certificate, Active, in nobody's hands.
pub(crate) async fn active(store: &SharedStore, name: &str, serial: &str) -> Domain {
    let who = claimant("maker");
    let account = account(store).await;
    let added = add(store, name).await;
    let mine = |work: Vec<Claimed>| work.into_iter().find(|one| one.domain.id == added.id);
    let claimed = mine(claim_all(store, &who).await).unwrap();
    into_queue(store, claimed).await;
    let admitted = mine(store.admit(&who, account, MANY, 100, HOLD).await.unwrap().work).unwrap();
    let downloading = into_download(store, admitted, serial).await;
    let deploying = issue(store, &downloading, serial).await;
    finish(store, &deploying, Outcome::DeploymentSeen).await.domain
}

/// Runs many at once and gives all their results.
pub(crate) async fn at_once<T, F>(count: usize, run: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(tokio::sync::Barrier::new(count));
    let tasks: Vec<_> = (0..count)
        .map(|n| {
            let (start, run) = (start.clone(), run(n));
            tokio::spawn(async move {
                start.wait().await;
                run.await
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

/// Removes a domain and sees its teardown to the end.
pub(crate) async fn remove(store: &SharedStore, id: DomainId) {
    store.remove(id, false, &actor()).await.unwrap();
    tear_down(store, id).await;
}

/// Works a removal that was asked for, whoever holds the domain meanwhile.
pub(crate) async fn tear_down(store: &SharedStore, id: DomainId) {
    let who = claimant("remover");
    let (mut tick, deadline) = (interval(Duration::from_millis(2)), Instant::now() + SOON);
    let claimed = loop {
        tick.tick().await;
        let work = claim_all(store, &who).await;
        let (mut mine, others): (Vec<_>, Vec<_>) =
            work.into_iter().partition(|claimed| claimed.domain.id == id);
        let others: Vec<_> = others.iter().map(|other| (other.domain.id, other.epoch)).collect();
        store.unclaim(&who, &others).await.unwrap();
        if let Some(claimed) = mine.pop() {
            break claimed;
        }
        assert!(Instant::now() < deadline, "the removal never became due");
    };
    let torn = store.begin_teardown(&claimed).await.unwrap();
    store.finish_removal(&torn, &actor()).await.unwrap();
}
