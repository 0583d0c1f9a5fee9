//! Where the built-in edge has certificates and answers from, one at a time, when they are asked for.

use async_trait::async_trait;
use holdfast_model::{DomainId, Hostname};
use holdfast_store::{Bundle, ChallengeDesk, ChallengeKind, Secret, SharedStore, proof_answer};
use tokio::sync::OnceCell;

use crate::Result;

/// What the built-in edge asks for on demand.
#[async_trait]
pub trait Source: Send + Sync {
    /// What is deployed for a name.
    async fn bundle(&self, name: &Hostname) -> Result<Option<Bundle>>;

    /// Whose name it is: to tell of a certificate that cannot be had.
    async fn domain(&self, name: &Hostname) -> Result<Option<DomainId>>;

    /// The key authorization for an HTTP-01 token.
    async fn http_answer(&self, token: &str) -> Result<Option<String>>;

    /// The key authorization of a name's TLS-ALPN-01 challenge.
    async fn alpn_answer(&self, name: &Hostname) -> Result<Option<String>>;

    /// The proof that a request reached this installation.
    async fn proof(&self, nonce: &str) -> Result<String>;
}

/// The store as a source. Anybody may ask for any token, so challenges go through a desk of its own.
pub struct StoreSource {
    store: SharedStore,
    challenges: ChallengeDesk,
    group: String,
    secret: OnceCell<Secret>,
}

impl StoreSource {
    /// A source over a store, for the edges of a group.
    #[must_use]
    pub fn new(store: SharedStore, group: &str) -> Self {
        let challenges = ChallengeDesk::new(store.clone());
        Self { store, challenges, group: group.to_owned(), secret: OnceCell::new() }
    }
}

#[async_trait]
impl Source for StoreSource {
    async fn bundle(&self, name: &Hostname) -> Result<Option<Bundle>> {
        Ok(self.store.bundle_in(&self.group, name).await?)
    }

    async fn domain(&self, name: &Hostname) -> Result<Option<DomainId>> {
        Ok(self.store.domain_named(name).await?.map(|domain| domain.id))
    }

    async fn http_answer(&self, token: &str) -> Result<Option<String>> {
        let answer = self.challenges.answer(token).await?;
        let answer = answer.filter(|answer| answer.kind == ChallengeKind::Http01);
        Ok(answer.map(|answer| answer.key_authorization))
    }

    async fn alpn_answer(&self, name: &Hostname) -> Result<Option<String>> {
        let answer = self.challenges.alpn_answer(name).await?;
        Ok(answer.map(|answer| answer.key_authorization))
    }

    async fn proof(&self, nonce: &str) -> Result<String> {
        let secret = self.secret.get_or_try_init(|| self.store.cluster_secret()).await?;
        Ok(proof_answer(secret, nonce))
    }
}
