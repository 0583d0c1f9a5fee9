//! One CA.

use std::sync::Arc;

use holdfast_model::Hostname;
use holdfast_store::{AccountId, NewChallenge, OrderLimits, Secret, SharedStore};

use crate::{CaConfig, Error, KeyType, NewOrder, OrderStatus, Proof, Verdict, Window};

/// A CA and our account there; clones share it.
#[derive(Clone)]
pub struct Ca(Arc<Inner>);

struct Inner {
    config: CaConfig,
    store: SharedStore,
}

#[expect(unused_variables, reason = "signatures first")]
impl Ca {
    /// Makes the client; nothing is connected yet.
    pub fn new(config: CaConfig, store: SharedStore) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner { config, store })))
    }
    /// The ACME directory.
    pub fn directory(&self) -> &str {
        &self.0.config.directory
    }
    /// The kind of key that certificates get.
    pub fn key_type(&self) -> KeyType {
        self.0.config.key_type
    }
    /// How many orders the account may make and have.
    pub fn limits(&self) -> OrderLimits {
        self.0.config.limits
    }
    /// The account, if it was needed before.
    pub fn known_account(&self) -> Option<AccountId> {
        todo!()
    }
    /// The account, loaded or made once.
    pub async fn account(&self) -> Result<AccountId, Error> {
        let _ = &self.0.store;
        todo!()
    }
    /// Orders a certificate.
    pub async fn new_order(
        &self,
        name: &Hostname,
        replaces_chain_pem: Option<&str>,
    ) -> Result<NewOrder, Error> {
        todo!()
    }
    /// What is still to be proven.
    pub async fn proof(&self, order_url: &str) -> Result<Proof, Error> {
        todo!()
    }
    /// Tells the CA to look.
    pub async fn accept(&self, challenge: &NewChallenge) -> Result<(), Error> {
        todo!()
    }
    /// What the CA found.
    pub async fn verdict(&self, challenge: &NewChallenge) -> Result<Verdict, Error> {
        todo!()
    }
    /// How the order stands.
    pub async fn order(&self, order_url: &str) -> Result<OrderStatus, Error> {
        todo!()
    }
    /// Finalizes.
    pub async fn finalize(&self, order_url: &str, csr_der: &[u8]) -> Result<OrderStatus, Error> {
        todo!()
    }
    /// Downloads.
    pub async fn certificate(&self, order_url: &str) -> Result<String, Error> {
        todo!()
    }
    /// ARI.
    pub async fn renewal_window(&self, chain_pem: &str) -> Result<Option<Window>, Error> {
        todo!()
    }
    /// Revokes.
    pub async fn revoke(&self, chain_pem: &str, key: Option<&Secret>) -> Result<(), Error> {
        todo!()
    }
    /// Changes the account's key.
    pub async fn change_key(&self) -> Result<(), Error> {
        todo!()
    }
}

/// A key, and the request to certify it.
#[expect(unused_variables, reason = "signatures first")]
pub fn key_and_csr(name: &Hostname, key_type: KeyType) -> Result<(Secret, Vec<u8>), Error> {
    todo!()
}
