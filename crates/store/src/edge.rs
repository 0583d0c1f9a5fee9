//! Edges: what they should serve (deployments with revisions) and what they were seen serving
//! (observations).
//!
//! A revision's number comes from one counter row locked until commit, so numbers become visible in order. The epoch rises
//! when a backup was restored.

use async_trait::async_trait;
use holdfast_model::{DomainId, Hostname, Note, Timestamp};
use uuid::Uuid;

use crate::{
    CertificateId, Error, Result,
    row::{Fields, change},
};

/// Identifies an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EdgeId(pub Uuid);

/// A point in the history of what is to be served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision {
    /// Rises when a backup was restored.
    pub epoch: i64,
    /// Rises with every deployment.
    pub number: i64,
}

/// An edge that makes itself known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEdge {
    /// Its name, unique.
    pub name: String,
    /// Which domains it serves.
    pub group: String,
}

/// An edge as last heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Its id.
    pub id: EdgeId,
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Did it report within the last 30 s?
    pub live: bool,
    /// When it last reported.
    pub last_seen_at: Timestamp,
    /// Up to where it has applied.
    pub revision: Revision,
    /// How many deployments of its group are newer.
    pub behind: u64,
    /// What it last complained of.
    pub last_error: Option<Note>,
}

/// One name's desired certificate changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The name.
    pub name: Hostname,
    /// Of which domain.
    pub domain: DomainId,
    /// The certificate to serve and its fingerprint; none: stop serving it.
    pub certificate: Option<(CertificateId, String)>,
    /// As of.
    pub revision: Revision,
}

/// What came after a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// In order of revision; a name at most once, with its newest.
    pub items: Vec<Change>,
    /// Everything up to here is in, or was before.
    pub up_to: Revision,
    /// Is there more?
    pub more: bool,
}

/// What an edge saw when it looked at itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Of which domain.
    pub domain: DomainId,
    /// The fingerprint served for its name; none when the name is not served any more.
    pub sha256: Option<String>,
    /// Why it is not as desired.
    pub error: Option<Note>,
}

/// A report: what was applied and seen. Also the sign of life, when empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeReport {
    /// Applied up to here.
    pub up_to: Revision,
    /// What was seen.
    pub observations: Vec<Observation>,
    /// A complaint about the edge as a whole.
    pub error: Option<Note>,
}

/// How a domain's newest deployment stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentStatus {
    /// Its revision; none when nothing was deployed.
    pub revision: Option<Revision>,
    /// Is it a tombstone?
    pub tombstone: bool,
    /// Live edges of its group.
    pub live: u32,
    /// Live edges that do not show it as desired yet, and did not refuse.
    pub behind: u32,
    /// Live edges seen serving it as desired.
    pub serving: u32,
    /// Live edges that refused, by name, and why.
    pub refused: Vec<(String, Note)>,
    /// What was last seen served for the name, where, and when.
    pub seen: Option<(String, Timestamp)>,
}

/// Edges.
#[async_trait]
pub trait Edges: Send + Sync {
    /// Makes an edge known, or finds it again by name (its group may have changed).
    async fn register_edge(&self, new: &NewEdge) -> Result<Edge>;

    /// All edges.
    async fn edges(&self) -> Result<Vec<Edge>>;

    /// The newest revision there is.
    async fn latest_revision(&self) -> Result<Revision>;

    /// What came after `after` for a group, at most `limit`. `RevisionGone` for another epoch's.
    async fn changes(&self, group: &str, after: Revision, limit: u32) -> Result<Changes>;

    /// Takes a report, and makes domains that wait for it due.
    async fn observe(&self, edge: EdgeId, report: &EdgeReport) -> Result<()>;

    /// How a domain's deployment stands.
    async fn deployment(&self, domain: DomainId) -> Result<DeploymentStatus>;
}

impl Changes {
    /// Puts an answer together from rows that carry the counter (`epoch`, `latest`) and at most `limit` changes.
    pub(crate) fn read(rows: &[impl Fields], after: Revision, limit: u32) -> Result<Self> {
        let first = rows.first().ok_or(Error::NotFound("revision"))?;
        let latest = Revision { epoch: first.number("epoch")?, number: first.number("latest")? };
        // From the very beginning anybody may ask; else only about this epoch, and not from a future that was lost.
        let known = after.epoch == latest.epoch && after.number <= latest.number;
        if after != Revision::default() && !known {
            return Err(Error::RevisionGone { epoch: after.epoch, number: after.number });
        }
        let mut items = Vec::new();
        for row in rows {
            if row.maybe_text("name")?.is_some() {
                items.push(change(row, latest.epoch)?);
            }
        }
        let more = u32::try_from(items.len()).is_ok_and(|n| n >= limit);
        let last = items.last().map(|change| change.revision);
        Ok(Self { up_to: last.filter(|_| more).unwrap_or(latest), items, more })
    }
}
