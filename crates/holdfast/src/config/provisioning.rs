//! `[provisioning]`: how much is worked on at once, and how long DNS is waited for.

use serde::Deserialize;

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Provisioning {
    /// How long a replica may be silent before another takes its work.
    pub(crate) claim_seconds: u32,
    /// Domains worked on at once by this replica.
    pub(crate) concurrency: u32,
    /// Looks at a name's DNS before it goes under slow watch.
    pub(crate) dns_attempts: u32,
    /// Time for those.
    pub(crate) dns_timeout_seconds: u32,
}

impl Default for Provisioning {
    fn default() -> Self {
        Self { claim_seconds: 30, concurrency: 64, dns_attempts: 5, dns_timeout_seconds: 600 }
    }
}
