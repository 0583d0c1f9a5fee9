//! What the tests stand on: a store, the embedded CA or Pebble, and somebody who answers challenges.

use std::sync::Arc;
use std::time::Duration;

use holdfast_acme::{Ca, CaConfig, KeyType, OrderStatus, Proof, Verdict, key_and_csr};
use holdfast_devnet::{Devnet, DevnetConfig};
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_model::Hostname;
use holdfast_store::{Accounts, ChallengeKind, NewChallenge, OrderLimits, Secret};
use holdfast_testkit::eventually;
use serde_json::Value;

use crate::answers::Answers;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The embedded CA, somebody who answers its challenges, and a store.
pub(crate) struct Net {
    pub(crate) devnet: Devnet,
    pub(crate) answers: Answers,
    pub(crate) store: Arc<dyn Accounts>,
}

impl Net {
    pub(crate) async fn start() -> Self {
        Self::start_with(DevnetConfig::default()).await
    }

    pub(crate) async fn start_with(config: DevnetConfig) -> Self {
        let answers = Answers::start().await;
        let config = DevnetConfig { http_port: answers.port(), ..config };
        let devnet = Devnet::start(config).await.unwrap();
        Self { devnet, answers, store: crate::store::open().await }
    }

    pub(crate) fn config(&self) -> CaConfig {
        config(self.devnet.directory_url(), self.devnet.root_pem())
    }

    pub(crate) fn ca(&self) -> Ca {
        self.ca_with(self.config())
    }

    pub(crate) fn ca_with(&self, config: CaConfig) -> Ca {
        Ca::new(config, self.store.clone()).unwrap()
    }

    pub(crate) fn fault(&self, kind: &str, value: &str, times: Option<u64>) {
        self.devnet.faults().set(kind, value, times).unwrap();
    }

    /// What the CA itself says of its orders, accounts or certificates.
    pub(crate) async fn listed(&self, what: &str) -> Vec<Value> {
        let roots = Some(self.devnet.root_pem().as_bytes().to_vec());
        let client =
            Client::new(ClientConfig { extra_roots_pem: roots, ..ClientConfig::default() });
        let url = self.devnet.url(&format!("/dev/{what}"));
        let request = http::Request::get(url).body(bytes::Bytes::new()).unwrap();
        let answer = client.unwrap().send(request).await.unwrap();
        serde_json::from_slice(answer.body()).unwrap()
    }

    /// An order that waits to be proven, and its challenge.
    pub(crate) async fn challenged(&self, ca: &Ca, host: &str) -> (String, NewChallenge) {
        let url = ca.new_order(&name(host), None).await.unwrap().url;
        match ca.proof(&url).await.unwrap() {
            Proof::Needed(challenge) => {
                self.answers.put(&challenge);
                (url, challenge)
            }
            other => panic!("{other:?}"),
        }
    }

    /// An order that can be finalized, with a key and a CSR for it.
    pub(crate) async fn ready(&self, ca: &Ca, host: &str) -> (String, Vec<u8>) {
        let url = ca.new_order(&name(host), None).await.unwrap().url;
        prove(ca, &self.answers, &url).await;
        (url, key_and_csr(&name(host), KeyType::EcdsaP256).unwrap().1)
    }
}

pub(crate) fn config(directory: String, root_pem: &str) -> CaConfig {
    CaConfig {
        directory,
        extra_roots_pem: Some(root_pem.to_owned()),
        issuer_roots_pem: None,
        email: Some("ops@example.com".to_owned()),
        agree_terms: true,
        key_type: KeyType::EcdsaP256,
        profile: None,
        challenge: ChallengeKind::Http01,
        eab: None,
        time_limit: Duration::from_secs(10),
        limits: OrderLimits { per_3h: 300, in_flight: 64 },
    }
}

pub(crate) fn name(text: &str) -> Hostname {
    Hostname::parse(text).unwrap()
}

/// The whole walk, from nothing to a certificate and its key.
pub(crate) async fn issue(ca: &Ca, answers: &Answers, host: &str) -> (String, Secret) {
    issue_in_place_of(ca, answers, host, None).await
}

/// The same, for a renewal.
pub(crate) async fn issue_in_place_of(
    ca: &Ca,
    answers: &Answers,
    host: &str,
    chain: Option<&str>,
) -> (String, Secret) {
    let url = ca.new_order(&name(host), chain).await.unwrap().url;
    prove(ca, answers, &url).await;
    let (key, csr) = key_and_csr(&name(host), ca.key_type()).unwrap();
    if ca.finalize(&url, &csr).await.unwrap() != OrderStatus::Valid {
        settled(ca, &url).await;
    }
    (ca.certificate(&url).await.unwrap(), key)
}

/// Proves control and waits until the CA is convinced.
pub(crate) async fn prove(ca: &Ca, answers: &Answers, order_url: &str) {
    let Proof::Needed(challenge) = ca.proof(order_url).await.unwrap() else { return };
    answers.put(&challenge);
    ca.accept(&challenge).await.unwrap();
    assert_eq!(verdict(ca, &challenge).await, Verdict::Valid);
}

/// What the CA says in the end.
pub(crate) async fn verdict(ca: &Ca, challenge: &NewChallenge) -> Verdict {
    eventually(PATIENCE, "a verdict", async || match ca.verdict(challenge).await.unwrap() {
        Verdict::Pending { .. } => Err("pending"),
        verdict => Ok(verdict),
    })
    .await
}

/// Waits until a finalized order is valid.
pub(crate) async fn settled(ca: &Ca, order_url: &str) {
    eventually(PATIENCE, "the certificate", async || match ca.order(order_url).await.unwrap() {
        OrderStatus::Valid => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}
