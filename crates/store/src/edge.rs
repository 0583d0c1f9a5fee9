//! Edges: what they should serve (deployments with revisions) and what they were seen serving
//! (observations).
//!
//! A revision's number comes from one counter row locked until commit, so numbers become visible in order. The epoch rises
//! when a backup was restored.

use std::{collections::HashMap, fmt, str::FromStr};

use async_trait::async_trait;
use holdfast_model::{DomainId, Hostname, Note, Timestamp};
use uuid::Uuid;

use crate::{
    Actor, Adopted, CertificateId, Error, Page, Paged, Result, Stranger,
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

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.number)
    }
}

impl FromStr for Revision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('.').and_then(|(epoch, number)| {
            Some(Self { epoch: epoch.parse().ok()?, number: number.parse().ok()? })
        });
        // Only what we wrote: not `+1`, not `01`, nothing negative.
        parsed
            .filter(|one| one.epoch >= 0 && one.number >= 0 && one.to_string() == text)
            .ok_or_else(|| Error::BadCursor(text.to_owned()))
    }
}

/// An edge that makes itself known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEdge {
    /// Its name, unique.
    pub name: String,
    /// Which domains it serves.
    pub group: String,
}

/// What an agent says of itself; what it does not say stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeAgent {
    /// Its release.
    pub version: Option<String>,
    /// What it sits beside: `haproxy`, `files`, `builtin`.
    pub target: Option<String>,
    /// `apply` or `observe`.
    pub mode: Option<String>,
}

/// Which edge it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeIdentity {
    /// Its id.
    pub id: EdgeId,
    /// Its group.
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
    /// How many deployments of its group are newer, up to [`COUNTED`](crate::COUNTED).
    pub behind: u64,
    /// What it last complained of.
    pub last_error: Option<Note>,
    /// What its agent said of itself.
    pub agent: EdgeAgent,
    /// Names that it does not serve as desired, and said why.
    pub refusals: u64,
    /// Files there that are none of ours.
    pub strangers: u64,
    /// Of those, how many serve a name of ours.
    pub shadows: u64,
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

/// A part of everything that is to be served, by name. Tombstones are not among it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// In order of name.
    pub items: Vec<Change>,
    /// Where the next part begins; none on the last.
    pub next: Option<String>,
    /// As of: what came after the first part was read is to be had from [`Edges::changes`] after this.
    pub revision: Revision,
}

/// A name that an edge does not serve as desired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Of which domain.
    pub domain: DomainId,
    /// The name.
    pub name: Hostname,
    /// What is served instead.
    pub sha256: Option<String>,
    /// Why.
    pub note: Note,
    /// When it was last seen so.
    pub seen_at: Timestamp,
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

/// Which report of an edge it is. Sessions rise, and sequences rise within one: a report that was held up on its way is told by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportOrder {
    /// The registration it follows, by [`Edges::open_session`].
    pub session: i64,
    /// Its place among those of the session.
    pub sequence: i64,
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
    /// All files there that are none of ours; none where nothing changed.
    pub strangers: Option<Vec<Stranger>>,
    /// How taking over files went. Of those that were asked for, each is told once.
    pub adopted: Vec<Adopted>,
    /// How the agent works, where it says so.
    pub mode: Option<String>,
    /// Which of the edge's reports it is; none from an agent that does not count them.
    pub order: Option<ReportOrder>,
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
    /// Live edges that complain of themselves as a whole and were not seen serving it as desired, by
    /// name, and what they say. Nobody waits for them.
    pub broken: Vec<(String, Note)>,
    /// What was last seen served for the name, at a live edge whose proxy answers.
    pub seen: Option<Seen>,
}

/// A certificate as it was seen in a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its fingerprint.
    pub sha256: String,
    /// Its end of validity; none where it is not ours.
    pub not_after: Option<Timestamp>,
    /// When it was seen.
    pub at: Timestamp,
}

/// What went with an edge that a person removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedEdge {
    /// The group it was of.
    pub group: String,
    /// The names of its tokens, which work no more.
    pub tokens: Vec<String>,
}

impl RemovedEdge {
    /// As the event log tells it.
    pub(crate) fn told(&self, name: &str) -> String {
        let tokens = match self.tokens.as_slice() {
            [] => "it had no token".to_owned(),
            tokens => format!("its tokens work no more: {}", tokens.join(", ")),
        };
        format!("edge `{name}` of group `{}` was removed; {tokens}", self.group)
    }
}

/// Edges.
#[async_trait]
pub trait Edges: Send + Sync {
    /// Makes an edge known, or finds it again by name. In another group than before it is a new edge: what it was seen serving
    /// there says nothing of what it serves here.
    async fn register_edge(&self, new: &NewEdge) -> Result<Edge>;

    /// Forgets the edge of this name and everything it said, ends its tokens, and makes domains due that wait for it. None where
    /// there is no such edge.
    async fn remove_edge(&self, name: &str, actor: &Actor) -> Result<Option<RemovedEdge>>;

    /// Keeps what an edge's agent says of itself.
    async fn describe_edge(&self, edge: EdgeId, agent: &EdgeAgent) -> Result<()>;

    /// All edges.
    async fn edges(&self) -> Result<Vec<Edge>>;

    /// The edge of this name.
    async fn edge_named(&self, name: &str) -> Result<Option<Edge>>;

    /// What every call of an agent needs of the edge of this name, at the least cost.
    async fn edge_identity(&self, name: &str) -> Result<Option<EdgeIdentity>>;

    /// The names that an edge does not serve as desired.
    async fn refusals(&self, edge: EdgeId, page: &Page) -> Result<Paged<Refusal>>;

    /// The newest revision there is.
    async fn latest_revision(&self) -> Result<Revision>;

    /// What came after `after` for a group, at most `limit`. `RevisionGone` for another epoch's, and for one that tombstones were
    /// deleted since.
    async fn changes(&self, group: &str, after: Revision, limit: u32) -> Result<Changes>;

    /// Everything a group should serve, in parts. `RevisionGone` when a restore came between two parts.
    async fn desired(&self, group: &str, page: &Page) -> Result<Desired>;

    /// Begins a session of an edge's reports; later than all that were begun before.
    async fn open_session(&self, edge: EdgeId) -> Result<i64>;

    /// Takes a report, all of it or nothing, and makes domains that wait for it due. What it says of domains of other groups is not
    /// heard, nor that it has applied what is not there yet: that is of a future which was lost, and it counts as having applied nothing.
    /// A report that comes after a later one of the same edge changes nothing; one of a session that was never opened is `NotFound`.
    async fn observe(&self, edge: EdgeId, report: &EdgeReport, actor: &Actor) -> Result<()>;

    /// How a domain's deployment stands.
    async fn deployment(&self, domain: DomainId) -> Result<DeploymentStatus>;

    /// How many domains' deployments stand, by one question.
    async fn deployments(
        &self,
        domains: &[DomainId],
    ) -> Result<HashMap<DomainId, DeploymentStatus>>;
}

/// Where a part of a listing begins: as of which revision, and after which name. It is also the cursor's text.
pub(crate) struct ListingPlace {
    as_of: Option<Revision>,
    pub(crate) after: String,
}

impl ListingPlace {
    pub(crate) fn of(page: &Page) -> Result<Self> {
        let Some(text) = &page.after else { return Ok(Self { as_of: None, after: String::new() }) };
        let bad = || Error::BadCursor(text.clone());
        let (revision, name) = text.split_once(':').ok_or_else(bad)?;
        let name = Hostname::parse_host(name).ok().filter(|host| host.as_str() == name);
        let after = name.ok_or_else(bad)?.to_string();
        Ok(Self { as_of: Some(revision.parse().map_err(|_| bad())?), after })
    }
}

impl Desired {
    /// Puts a part together from rows that carry the counter and up to [`Page::rows`] changes.
    pub(crate) fn read(rows: &[impl Fields], place: &ListingPlace, page: &Page) -> Result<Self> {
        let first = rows.first().ok_or(Error::NotFound("revision"))?;
        let latest = Revision { epoch: first.number("epoch")?, number: first.number("latest")? };
        let revision = place.as_of.unwrap_or(latest);
        if revision.epoch != latest.epoch || revision.number > latest.number {
            return Err(Error::RevisionGone { epoch: revision.epoch, number: revision.number });
        }
        let mut items = Vec::new();
        for row in rows {
            if row.maybe_text("name")?.is_some() {
                items.push(change(row, latest.epoch)?);
            }
        }
        let limit = usize::try_from(page.limit.max(1)).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| more);
        let next = last.map(|last| format!("{revision}:{}", last.name));
        Ok(Self { items, next, revision })
    }
}

impl Changes {
    /// Puts an answer together from rows that carry the counter (`epoch`, `latest`) and at most `limit` changes.
    pub(crate) fn read(rows: &[impl Fields], after: Revision, limit: u32) -> Result<Self> {
        let first = rows.first().ok_or(Error::NotFound("revision"))?;
        let latest = Revision { epoch: first.number("epoch")?, number: first.number("latest")? };
        // From the very beginning anybody may ask; else only about this epoch, not from a future that was lost, and not from before
        // tombstones that were deleted since.
        let floor = first.number("floor")?;
        let known = after.epoch == latest.epoch && (floor..=latest.number).contains(&after.number);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_revision_survives_its_text(epoch in 0..i64::MAX, number in 0..i64::MAX) {
            let revision = Revision { epoch, number };
            prop_assert_eq!(revision.to_string().parse::<Revision>().unwrap(), revision);
        }

        #[test]
        fn any_text_is_a_revision_we_wrote_or_refused(text in "[-+0-9. ]{0,24}|.*") {
            match text.parse::<Revision>() {
                Ok(revision) => prop_assert_eq!(revision.to_string(), text),
                Err(error) => prop_assert!(matches!(error, Error::BadCursor(_))),
            }
        }

        #[test]
        fn any_listing_cursor_is_ours_or_refused(text in "[0-9]{1,3}[.][0-9]{1,3}:[a-zA-Z.-]{0,12}|.*") {
            let page = Page { limit: 1, after: Some(text.clone()) };
            if let Ok(place) = ListingPlace::of(&page) {
                prop_assert_eq!(format!("{}:{}", place.as_of.unwrap(), place.after), text);
            }
        }
    }
}
