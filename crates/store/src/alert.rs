//! Alerts that stand: each is raised once and cleared once, whichever replica notices. What deserves one is not decided here.

use async_trait::async_trait;

use crate::{Actor, Expiring, Fence, Result};

/// The code of what is told of a domain by itself rather than as an alert: its raising is an event of its own, its clearing none.
pub const DOMAIN_EXPIRING: &str = "domain-expiring";

/// An alert that should stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingAlert {
    /// Stable.
    pub code: String,
    /// About what.
    pub subject: String,
    /// In words.
    pub detail: String,
}

/// Alerts.
#[async_trait]
pub trait Alerts: Send + Sync {
    /// Makes these, and no others but [`DOMAIN_EXPIRING`], the alerts that stand. What was not there before is an event `alert-raised`, what is
    /// there no more an event `alert-cleared`, in the same commit. Gives how many events that made.
    async fn settle_alerts(
        &self,
        fence: Option<&Fence>,
        actor: &Actor,
        standing: &[StandingAlert],
    ) -> Result<u64>;

    /// Tells of each domain whose certificate has less than a ninth of its life left, once, as [`DOMAIN_EXPIRING`]; at most `limit` of
    /// them in one go. With two thirds of the time for renewal gone, renewal must have failed. Gives how many were told of.
    async fn settle_expiring(
        &self,
        fence: Option<&Fence>,
        actor: &Actor,
        limit: u32,
    ) -> Result<u64>;
}

impl From<Expiring> for StandingAlert {
    fn from(one: Expiring) -> Self {
        Self {
            code: DOMAIN_EXPIRING.to_owned(),
            detail: format!("the certificate of {} ends at {}", one.name, one.not_after),
            subject: one.name.to_string(),
        }
    }
}

/// The event that tells of an alert's raising.
pub(crate) fn raised(code: &str) -> &str {
    if code == DOMAIN_EXPIRING { code } else { "alert-raised" }
}

/// What an event says of an alert: which one, then in words.
pub(crate) fn told(code: &str, detail: &str) -> String {
    if code == DOMAIN_EXPIRING { detail.to_owned() } else { format!("{code}: {detail}") }
}
