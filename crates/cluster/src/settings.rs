//! What a replica tells when it joins.

use std::time::Duration;

use holdfast_lease::Options;
use holdfast_store::SharedStore;

use crate::Backend;

/// What a replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves and works.
    All,
    /// Serves.
    Api,
    /// Works.
    Worker,
}

impl Role {
    /// As written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }

    /// Does it contend for the leadership?
    #[must_use]
    pub const fn leads(self) -> bool {
        matches!(self, Self::All | Self::Api)
    }

    /// Does it contend for work?
    #[must_use]
    pub const fn works(self) -> bool {
        matches!(self, Self::All | Self::Worker)
    }

    /// May a replica of the role of this name hold what this one held?
    pub(crate) fn written_leads(text: &str) -> bool {
        text != Self::Worker.as_str()
    }

    pub(crate) fn written_works(text: &str) -> bool {
        text != Self::Api.as_str()
    }
}

/// What a replica tells when it joins.
pub struct Settings {
    /// What is remembered.
    pub store: SharedStore,
    /// The name people know it by.
    pub instance: String,
    /// How others reach it.
    pub url: String,
    /// What it does.
    pub role: Role,
    /// Its release.
    pub version: String,
    /// Where leases are kept.
    pub backend: Backend,
    /// The name of the lease that is the leadership.
    pub leadership: String,
    /// How leases are kept.
    pub options: Options,
    /// How often it says that it lives.
    pub heartbeat: Duration,
    /// After how long a silent one counts as gone.
    pub stale: Duration,
    /// How often those that are gone are forgotten.
    pub prune: Duration,
}
