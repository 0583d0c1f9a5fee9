//! What the CA says of an order, of a proof and of a certificate's renewal.

use std::time::Duration;

use holdfast_model::{Note, Timestamp};
use holdfast_store::NewChallenge;

/// An order that the CA made, or gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// Where it is read: to be stored at once, because a CA lists no orders.
    pub url: String,
}

/// Whether control of the name is still to be proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// This is the challenge to answer.
    Needed(NewChallenge),
    /// The CA remembers an earlier proof, or is past asking.
    Valid,
    /// It failed: this order is spent.
    Invalid(Note),
}

/// What the CA found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Pending {
        /// When it wants to be asked again, where it said so.
        retry_after: Option<Duration>,
    },
    /// It is satisfied.
    Valid,
    /// It is not: this order is spent.
    Invalid(Note),
}

/// How an order stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderStatus {
    /// Proof is missing.
    Pending,
    /// Proof is given: it can be finalized.
    Ready,
    /// Finalized; the CA is signing.
    Processing {
        /// When it wants to be asked again, where it said so.
        retry_after: Option<Duration>,
    },
    /// The certificate can be downloaded.
    Valid,
    /// It failed: a new order is needed.
    Invalid(Note),
}

/// When the CA would like a certificate to be renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// From then on.
    pub start: Timestamp,
    /// Until then.
    pub end: Timestamp,
    /// When to ask again, where it said so.
    pub retry_after: Option<Duration>,
    /// A page that says why, for people.
    pub explanation_url: Option<String>,
}
