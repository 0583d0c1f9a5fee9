//! A real store, and domains brought to where an edge comes in.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_model::{Domain, DomainId, Note, Outcome, Policy, decide};
use holdfast_store::{
    Actor, Bundle, ChallengeKind, Claimant, Claimed, Commit, DeploymentStatus, Import, MasterKey,
    NewAccount, NewCertificate, NewChallenge, NewDomain, OpenOptions, OrderLimits, Products,
    Secret, SharedStore, open,
};
use holdfast_testkit::{Postgres, Scratch, eventually};
use uuid::Uuid;

use super::{LIMIT, name};

const HOLD: Duration = Duration::from_secs(30);

pub(crate) struct Stored {
    pub(crate) store: SharedStore,
    pub(crate) url: String,
    who: Claimant,
    _directory: Option<Scratch>,
}

impl Stored {
    pub(crate) async fn on_postgres() -> Self {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        Self::open(&url, None).await
    }

    pub(crate) async fn on_sqlite() -> Self {
        let directory = Scratch::new().unwrap();
        let url = format!("sqlite:{}", directory.path().join("holdfast.db").display());
        Self::open(&url, Some(directory)).await
    }

    async fn open(url: &str, directory: Option<Scratch>) -> Self {
        let master = MasterKey::generate().unwrap();
        let store = open(url, Some(master), OpenOptions::default()).await.unwrap();
        let who = Claimant { instance: "test".to_owned(), incarnation: Uuid::new_v4() };
        Self { store, url: url.to_owned(), who, _directory: directory }
    }

    async fn step(&self, claimed: &Claimed, outcome: Outcome, products: Products) -> Claimed {
        let now = self.store.ping().await.unwrap();
        let commit = Commit {
            transition: decide(&claimed.domain, &outcome, &Policy::default(), now),
            products,
            answers_request: false,
            keep_claim: true,
            actor: actor(),
        };
        self.store.commit(claimed, &commit).await.unwrap()
    }

    async fn claim(&self, domain: &Domain) -> Claimed {
        eventually(LIMIT, "the domain to be due", async || {
            let work = self.store.claim(&self.who, 1_000, HOLD).await.unwrap().work;
            work.into_iter().find(|claimed| claimed.domain.id == domain.id).ok_or("not yet")
        })
        .await
    }

    /// Adds a domain with its certificate, and deploys it.
    pub(crate) async fn deploy(&self, bundle: &Bundle) -> Claimed {
        let import = Some(Import { certificate: certificate(bundle) });
        let new = NewDomain { import, ..new_domain(bundle.name.as_str()) };
        let added = self.store.add(&new).await.unwrap();
        let claimed = self.claim(&added.domain).await;
        let deploy = Products { deploy: true, ..Products::default() };
        self.step(&claimed, Outcome::Imported, deploy).await
    }

    /// Deploys another certificate of a domain in hand.
    pub(crate) async fn swap(&self, claimed: &Claimed, bundle: &Bundle) -> Claimed {
        let products = Products { certificate: Some(certificate(bundle)), ..Products::default() };
        let pending = Outcome::DeploymentPending { note: Note::new("test", "a new certificate") };
        self.step(claimed, pending, products).await
    }

    /// Begins the removal of a domain in hand.
    pub(crate) async fn remove(&self, claimed: &Claimed) -> Claimed {
        let id = claimed.domain.id;
        self.store.unclaim(&self.who, &[(id, claimed.epoch)]).await.unwrap();
        self.store.remove(id, false, &actor()).await.unwrap();
        let claimed = self.claim(&claimed.domain).await;
        self.store.begin_teardown(&claimed).await.unwrap()
    }

    /// Adds a domain and brings it to where a CA looks for its challenge.
    pub(crate) async fn challenge(&self, text: &str, kind: ChallengeKind, token: &str) {
        let added = self.store.add(&new_domain(text)).await.unwrap();
        let claimed = self.claim(&added.domain).await;
        let none = Products::default;
        let claimed = self.step(&claimed, Outcome::Accepted, none()).await;
        self.step(&claimed, Outcome::DnsPointed, none()).await;
        let new = NewAccount {
            directory: "https://ca.test/".to_owned(),
            key: Secret::from("key".to_owned()),
            email: None,
        };
        let account = self.store.journal_account(&new).await.unwrap().id;
        let limits = OrderLimits { per_3h: 100, in_flight: 100 };
        let admitted = self.store.admit(&self.who, account, limits, 10, HOLD).await.unwrap().work;
        let claimed = admitted.into_iter().find(|one| one.domain.id == added.domain.id).unwrap();
        let url = Products { order_url: Some(format!("https://ca.test/{token}")), ..none() };
        let claimed = self.step(&claimed, Outcome::OrderCreated, url).await;
        let challenge = NewChallenge {
            kind,
            token: token.to_owned(),
            key_authorization: format!("{token}.thumbprint"),
            url: format!("https://ca.test/challenge/{token}"),
            authorization_url: format!("https://ca.test/authorization/{token}"),
        };
        let challenge = Products { challenge: Some(challenge), ..none() };
        self.step(&claimed, Outcome::ChallengeReady, challenge).await;
    }

    /// Waits until a deployment stands as wanted.
    pub(crate) async fn until(
        &self,
        domain: DomainId,
        what: &str,
        wanted: impl Fn(&DeploymentStatus) -> bool,
    ) -> DeploymentStatus {
        eventually(LIMIT, what, async || {
            let status = self.store.deployment(domain).await.unwrap();
            if wanted(&status) { Ok(status) } else { Err(format!("{status:?}")) }
        })
        .await
    }

    /// Waits until every live edge was seen serving as desired.
    pub(crate) async fn until_served(&self, domain: DomainId) -> DeploymentStatus {
        let wanted = |status: &DeploymentStatus| status.serving == 1 && status.behind == 0;
        self.until(domain, "the domain to be served", wanted).await
    }
}

fn actor() -> Actor {
    Actor { instance: "test".to_owned(), name: "worker".to_owned() }
}

fn certificate(bundle: &Bundle) -> NewCertificate {
    NewCertificate {
        chain_pem: bundle.chain_pem.clone(),
        key: bundle.key.clone(),
        summary: bundle.summary.clone(),
    }
}

fn new_domain(text: &str) -> NewDomain {
    NewDomain {
        id: DomainId::new(),
        name: name(text),
        tenant: None,
        resource: None,
        target: name("edge.example.net"),
        target_given: false,
        edge_group: "default".to_owned(),
        labels: BTreeMap::new(),
        orchestration_id: Uuid::new_v4().to_string(),
        import: None,
        actor: actor(),
    }
}
