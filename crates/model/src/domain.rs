//! A domain as it is remembered.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{CertificateSummary, Hostname, Note, State, Timestamp};

/// Identifies a domain for ever, also after its removal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DomainId(pub Uuid);

impl DomainId {
    /// A new id; ids made later sort later.
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for DomainId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for DomainId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// What a person asked for and a worker has not yet done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// Try again now.
    Retry,
    /// A new certificate now.
    Renew,
}

impl Wanted {
    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Renew => "renew",
        }
    }

    /// All of them.
    pub const ALL: [Self; 2] = [Self::Retry, Self::Renew];

    /// From what is stored; `None` for what a newer release wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wanted| wanted.as_str() == text)
    }
}

/// One custom domain.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain {
    /// Its id.
    pub id: DomainId,
    /// The name customers type.
    pub name: Hostname,
    /// The operator's own key for whose it is.
    pub tenant: Option<String>,
    /// The operator's own key for what is hosted there; the domain's id where none was given.
    pub resource: String,
    /// The CNAME value this customer was told.
    pub target: Hostname,
    /// Which edges serve it.
    pub edge_group: String,
    /// The operator's own labels.
    pub labels: BTreeMap<String, String>,
    /// The idempotency key of whoever added it.
    pub orchestration_id: String,
    /// Where it stands.
    pub state: State,
    /// The name of its state where only a newer release knows it. Then `state` says `Failed`, and nobody here works on it.
    pub foreign_state: Option<String>,
    /// How often this state was tried; rises with committed outcomes only.
    pub attempt: u32,
    /// Since when it is in this state.
    pub entered_at: Timestamp,
    /// When it is tried next; none while it waits in the CA's queue or is over.
    pub next_attempt_at: Option<Timestamp>,
    /// Since when it waits for an order; the queue's order.
    pub queued_at: Option<Timestamp>,
    /// How many phase failures in a row: the rung of the ladder.
    pub failures: u32,
    /// Since when nothing but failures.
    pub failing_since: Option<Timestamp>,
    /// The cause of the latest failure, until a success.
    pub last_error: Option<Note>,
    /// Does an order of it wait at the CA?
    pub order_open: bool,
    /// The newest certificate.
    pub certificate: Option<CertificateSummary>,
    /// When that was stored, by the store's clock: its own dates are a claim of the CA's.
    pub certificate_since: Option<Timestamp>,
    /// What a person asked for.
    pub wanted: Option<Wanted>,
    /// Since when it is being torn down.
    pub removing_since: Option<Timestamp>,
    /// Was revocation asked for with the removal?
    pub revoke_on_removal: bool,
    /// When the teardown was complete and the name free.
    pub removed_at: Option<Timestamp>,
    /// How many claims in a row ended without a commit.
    pub lapses: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Rises with every committed change.
    pub version: i64,
}

impl Domain {
    /// Where it stands, as people read it; also where only a newer release knows what that means.
    #[must_use]
    pub fn state_name(&self) -> &str {
        self.foreign_state.as_deref().unwrap_or(self.state.as_str())
    }
}
