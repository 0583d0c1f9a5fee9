//! Alerts that stand: each is raised once and cleared once, whichever replica notices. What deserves one is not decided here.

use async_trait::async_trait;
use holdfast_model::{Hostname, Timestamp};
use uuid::Uuid;

use crate::{
    Actor, Expiring, Fence, Result,
    row::{Fields, expiring},
};

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

/// Certificates that were not renewed in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    /// How many there are, up to [`crate::COUNTED`].
    pub count: u64,
    /// Some of them, the first to end first.
    pub some: Vec<Expiring>,
}

/// A certificate of a CA, in use, that had more than a third of its life behind it when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateIssue {
    /// The domain.
    pub name: Hostname,
    /// When it began.
    pub not_before: Timestamp,
    /// When it ends.
    pub not_after: Timestamp,
    /// When it was stored.
    pub stored_at: Timestamp,
}

/// All of those.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LateIssues {
    /// How many there are, up to [`crate::COUNTED`].
    pub count: u64,
    /// Some of them, the latest first.
    pub some: Vec<LateIssue>,
}

impl LateIssues {
    pub(crate) fn read(rows: &[impl Fields]) -> Result<Self> {
        let count = rows.first().map_or(Ok(0), |row| row.number("n"))?;
        let issue = |row| late_issue(row);
        let some = rows.iter().map(issue).collect::<Result<_>>()?;
        Ok(Self { count: u64::try_from(count).unwrap_or(0), some })
    }
}

fn late_issue(row: &impl Fields) -> Result<LateIssue> {
    Ok(LateIssue {
        name: row.hostname("name")?,
        not_before: row.at("not_before")?,
        not_after: row.at("not_after")?,
        stored_at: row.at("created_at")?,
    })
}

impl Ending {
    pub(crate) fn read(rows: &[impl Fields]) -> Result<Self> {
        let count = rows.first().map_or(Ok(0), |row| row.number("n"))?;
        let some = rows.iter().map(expiring).collect::<Result<_>>()?;
        Ok(Self { count: u64::try_from(count).unwrap_or(0), some })
    }
}

/// A part of those that are ending, by the order in which they came to it.
pub(crate) struct EndingPart {
    /// Those that nobody was told of.
    pub(crate) untold: Vec<StandingAlert>,
    /// The last certificate of the part; none when it was the last part.
    pub(crate) last: Option<Uuid>,
}

impl EndingPart {
    /// Rows of certificates, with a name where it is to be told of.
    pub(crate) fn read(rows: &[impl Fields], part: u32) -> Result<Self> {
        let untold = rows.iter().filter(|row| !matches!(row.maybe_text("name"), Ok(None)));
        let untold = untold.map(|row| Ok(expiring(row)?.into())).collect::<Result<_>>()?;
        let full = rows.len() >= usize::try_from(part.max(1)).unwrap_or(usize::MAX);
        let last = rows.last().filter(|_| full).map(|row| row.id("id")).transpose()?;
        Ok(Self { untold, last })
    }
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

    /// Tells of each domain whose certificate is [`Self::ending`], once, as [`DOMAIN_EXPIRING`], and forgets those that are mended; in commits
    /// that look at no more than `part` of them each. Gives how many were told of.
    async fn settle_expiring(&self, fence: Option<&Fence>, actor: &Actor, part: u32)
    -> Result<u64>;

    /// Certificates in use with less than a ninth of their life left: with two thirds of the time for renewal gone, renewal must have
    /// failed. Names at most `limit` of them.
    async fn ending(&self, limit: u32) -> Result<Ending>;

    /// Certificates in use that a CA issued with more than a third of their life behind them, by the store's clock. Names at most
    /// `limit` of them.
    async fn late_issues(&self, limit: u32) -> Result<LateIssues>;
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
