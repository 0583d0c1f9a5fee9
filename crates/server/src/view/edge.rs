//! An edge, and what its agent is told.

use holdfast_model::Timestamp;
use holdfast_store::{
    Adoption, Asked, Bundle, Change, Changes, Desired, Difference, Edge, Found, Names, Refusal,
    RemovedEdge, Stranger,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::NoteView;

/// An edge as last heard of.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Edge)]
pub(crate) struct EdgeView {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    id: String,
    /// Its name.
    name: String,
    /// Which domains it serves.
    group: String,
    /// Did it report within the last 30 s?
    live: bool,
    /// When it last reported.
    #[schema(value_type = String, format = DateTime)]
    last_seen_at: Timestamp,
    /// Up to where it has applied, `EPOCH.NUMBER`.
    revision: String,
    /// How many deployments of its group are newer.
    behind: u64,
    /// What it last complained of.
    last_error: Option<NoteView>,
    /// `apply`, or `observe` while it changes nothing; null for an edge without an agent.
    mode: Option<String>,
    /// What its agent sits beside.
    target: Option<String>,
    /// Its agent's release.
    version: Option<String>,
    /// How many names it does not serve as desired, and said why; counted up to 1,001.
    refusals: u64,
    /// Files there that are none of ours.
    strangers: u64,
    /// Of those, how many are served for a name of ours.
    shadows: u64,
}

impl From<Edge> for EdgeView {
    fn from(edge: Edge) -> Self {
        Self {
            id: edge.id.0.to_string(),
            name: edge.name,
            group: edge.group,
            live: edge.live,
            last_seen_at: edge.last_seen_at,
            revision: edge.revision.to_string(),
            behind: edge.behind,
            last_error: edge.last_error.map(NoteView::from),
            mode: edge.agent.mode,
            target: edge.agent.target,
            version: edge.agent.version,
            refusals: edge.refusals,
            strangers: edge.strangers,
            shadows: edge.shadows,
        }
    }
}

/// An edge with what is not as it should be there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EdgeDetail {
    #[serde(flatten)]
    edge: EdgeView,
    /// Names that it does not serve as desired, the first hundred.
    refused: Vec<RefusalView>,
    /// Files there that are none of ours, the first hundred.
    stranger_files: Vec<StrangerView>,
    /// Names that it serves and the database, since it was restored, does not know: they stay served. Add them again.
    unknown_names: NamesView,
    /// Names that it did not serve when the restored database told it to: they may have been removed after the backup was made.
    absent_names: NamesView,
}

/// Some names, and how many there are.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Names)]
pub(crate) struct NamesView {
    /// How many there are in all.
    count: u64,
    /// The first thousand of them.
    names: Vec<String>,
}

impl From<Names> for NamesView {
    fn from(names: Names) -> Self {
        Self { count: names.count, names: names.first }
    }
}

impl EdgeDetail {
    pub(crate) fn new(
        edge: Edge,
        refused: Vec<Refusal>,
        strangers: Vec<Found>,
        difference: Difference,
    ) -> Self {
        Self {
            edge: edge.into(),
            refused: refused.into_iter().map(RefusalView::from).collect(),
            stranger_files: strangers.into_iter().map(StrangerView::from).collect(),
            unknown_names: difference.unknown.into(),
            absent_names: difference.absent.into(),
        }
    }
}

/// A name that an edge does not serve as desired.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refusal)]
pub(crate) struct RefusalView {
    /// The name.
    name: String,
    /// Its domain.
    #[schema(value_type = String, format = Uuid)]
    domain_id: String,
    /// What is served instead, if anything is.
    sha256: Option<String>,
    /// Why.
    error: NoteView,
    /// When it was last seen so.
    #[schema(value_type = String, format = DateTime)]
    seen_at: Timestamp,
}

impl From<Refusal> for RefusalView {
    fn from(refusal: Refusal) -> Self {
        Self {
            name: refusal.name.to_string(),
            domain_id: refusal.domain.to_string(),
            sha256: refusal.sha256,
            error: refusal.note.into(),
            seen_at: refusal.seen_at,
        }
    }
}

/// A file at an edge that is none of ours.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stranger)]
pub(crate) struct StrangerView {
    /// The file, as the proxy knows it.
    file: String,
    /// The names its certificate covers.
    names: Vec<String>,
    /// SHA-256 of its leaf.
    sha256: Option<String>,
    /// Is it served for a name of ours instead of ours?
    shadows: bool,
    /// What became of the last request to take it over; null where there was none.
    adoption: Option<AskedView>,
}

/// What became of a request to take a file over.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AskedAdoption)]
pub(crate) struct AskedView {
    /// Why the edge did not; null while it has not said.
    error: Option<NoteView>,
}

impl From<Found> for StrangerView {
    fn from(Found { stranger, asked }: Found) -> Self {
        let Stranger { file, names, sha256, shadows } = stranger;
        let error = |asked| match asked {
            Asked::Waiting => None,
            Asked::Refused(note) => Some(note.into()),
        };
        let adoption = asked.map(|asked| AskedView { error: error(asked) });
        Self { file, names, sha256, shadows, adoption }
    }
}

/// A file to be taken over for a name of ours.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Adoption)]
pub(crate) struct AdoptionView {
    /// The file, as the proxy knows it.
    file: String,
    /// The name whose certificate it shall hold.
    name: String,
}

impl From<Adoption> for AdoptionView {
    fn from(Adoption { file, name }: Adoption) -> Self {
        Self { file, name: name.to_string() }
    }
}

/// What went with an edge that was removed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RemovedEdge)]
pub(crate) struct RemovedEdgeView {
    /// Its name, which is free.
    name: String,
    /// The group it was of.
    group: String,
    /// The names of its tokens, which work no more.
    tokens: Vec<String>,
}

impl RemovedEdgeView {
    pub(crate) fn new(name: String, RemovedEdge { group, tokens }: RemovedEdge) -> Self {
        Self { name, group, tokens }
    }
}

/// An edge that made itself known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RegisteredEdge {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    id: String,
    /// Its name.
    name: String,
    /// Which domains it serves.
    group: String,
    /// Up to where it has reported, `EPOCH.NUMBER`.
    revision: String,
    /// To be given with the reports from now on, each with a higher `sequence`.
    session: i64,
}

impl RegisteredEdge {
    pub(crate) fn new(edge: Edge, session: i64) -> Self {
        Self {
            id: edge.id.0.to_string(),
            name: edge.name,
            group: edge.group,
            revision: edge.revision.to_string(),
            session,
        }
    }
}

/// What one name's edges should serve.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Change)]
pub(crate) struct ChangeView {
    /// The name.
    name: String,
    /// Its domain.
    #[schema(value_type = String, format = Uuid)]
    domain_id: String,
    /// SHA-256 of the leaf to serve; null: stop serving the name.
    sha256: Option<String>,
    /// The certificate.
    #[schema(value_type = Option<String>, format = Uuid)]
    certificate_id: Option<String>,
    /// As of, `EPOCH.NUMBER`.
    revision: String,
}

impl From<Change> for ChangeView {
    fn from(change: Change) -> Self {
        let (certificate_id, sha256) = change.certificate.unzip();
        Self {
            name: change.name.to_string(),
            domain_id: change.domain.to_string(),
            sha256,
            certificate_id: certificate_id.map(|id| id.0.to_string()),
            revision: change.revision.to_string(),
        }
    }
}

/// What changed after a revision.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Changes)]
pub(crate) struct ChangesView {
    /// In order of revision; a name at most once, with its newest.
    items: Vec<ChangeView>,
    /// Everything up to here is in, or was before, `EPOCH.NUMBER`.
    up_to: String,
    /// Is there more?
    more: bool,
    /// Files of strangers to be taken over.
    adopt: Vec<AdoptionView>,
}

impl ChangesView {
    pub(crate) fn new(changes: Changes, adopt: Vec<Adoption>) -> Self {
        Self {
            items: changes.items.into_iter().map(ChangeView::from).collect(),
            up_to: changes.up_to.to_string(),
            more: changes.more,
            adopt: adopt.into_iter().map(AdoptionView::from).collect(),
        }
    }
}

/// A part of everything an edge should serve.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DesiredPage {
    /// In order of name.
    items: Vec<ChangeView>,
    /// Where the next part begins; null on the last.
    next_cursor: Option<String>,
    /// As of: ask for changes after this, `EPOCH.NUMBER`. The same in every part.
    revision: String,
}

impl From<Desired> for DesiredPage {
    fn from(desired: Desired) -> Self {
        Self {
            items: desired.items.into_iter().map(ChangeView::from).collect(),
            next_cursor: desired.next.map(crate::page::encode),
            revision: desired.revision.to_string(),
        }
    }
}

/// A certificate with its key.
#[derive(Serialize, ToSchema)]
#[schema(as = Bundle)]
pub(crate) struct BundleView {
    /// The name it is for.
    name: String,
    /// Its domain.
    #[schema(value_type = String, format = Uuid)]
    domain_id: String,
    /// SHA-256 of the leaf, lower-case hex.
    sha256: String,
    /// PEM, leaf first.
    chain: String,
    /// PEM, PKCS #8.
    #[schema(format = Password)]
    key: String,
    /// The end of its validity.
    #[schema(value_type = String, format = DateTime)]
    not_after: Timestamp,
}

impl From<Bundle> for BundleView {
    fn from(bundle: Bundle) -> Self {
        Self {
            name: bundle.name.to_string(),
            domain_id: bundle.domain.to_string(),
            sha256: bundle.summary.sha256,
            chain: bundle.chain_pem,
            key: String::from_utf8_lossy(bundle.key.expose()).into_owned(),
            not_after: bundle.summary.not_after,
        }
    }
}
