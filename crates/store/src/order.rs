//! Orders: journaled from before they are made until they end.

use async_trait::async_trait;
use holdfast_model::{DomainId, Timestamp};
use uuid::Uuid;

use crate::{AccountId, NewChallenge, Result, Secret};

/// Identifies one order of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrderId(pub Uuid);

/// Why the CA does not give the certificate of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderTrouble {
    /// A short code of the kind of reason.
    pub kind: String,
    /// Since when it is that one.
    pub since: Timestamp,
}

/// An open order. Its key and CSR are sealed before it is finalized, so that whoever takes over finalizes
/// with the same.
#[derive(Debug, Clone)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// Of which domain.
    pub domain: DomainId,
    /// At which account.
    pub account: AccountId,
    /// The CA's URL of it; none until the CA has answered.
    pub url: Option<String>,
    /// Its challenge, once known.
    pub challenge: Option<NewChallenge>,
    /// The certificate's key, PKCS #8 PEM, once made.
    pub key: Option<Secret>,
    /// The CSR, DER, once made.
    pub csr: Option<Vec<u8>>,
    /// Why its certificate could not be had when that was tried last, if so.
    pub trouble: Option<OrderTrouble>,
    /// When it was begun.
    pub created_at: Timestamp,
}

/// Orders. They are written by `Work::admit` and `Work::commit` alone.
#[async_trait]
pub trait Orders: Send + Sync {
    /// At which account the open order of a domain is.
    async fn order_account(&self, domain: DomainId) -> Result<Option<AccountId>>;

    /// The open order of a domain.
    async fn open_order(&self, domain: DomainId) -> Result<Option<Order>>;
}
