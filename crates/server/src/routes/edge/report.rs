//! What an edge saw. Also its sign of life, when empty.

use std::collections::BTreeMap;

use axum::extract::State;
use holdfast_model::{DomainId, Hostname, Note};
use holdfast_store::{Adopted, Adoption, EdgeReport, Observation, ReportOrder, Stranger};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::body::{Body, Input, Object};
use crate::edge::AtEdge;
use crate::query::{self, Params};
use crate::{AppState, Kind, Problem, field};

/// Most observations in one report.
const OBSERVATIONS: usize = 10_000;

/// Longest words of a cause that are kept.
const DETAIL: usize = 2_000;

/// Longest path of a file.
const FILE: usize = 1_024;

/// What an edge saw.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `up_to`")]
#[schema(as = EdgeReport)]
pub(in crate::routes) struct ReportRequest {
    /// Everything up to this revision is applied, `EPOCH.NUMBER`.
    up_to: String,
    /// What was seen for names.
    #[serde(default)]
    #[schema(value_type = Vec<ObservationRequest>)]
    observations: Vec<Object<ObservationRequest>>,
    /// What is wrong with the edge as a whole.
    #[schema(value_type = Option<NoteRequest>)]
    error: Option<Object<NoteRequest>>,
    /// All files there that are none of ours; absent or null where nothing changed.
    #[schema(value_type = Option<Vec<StrangerRequest>>)]
    strangers: Option<Vec<Object<StrangerRequest>>>,
    /// How files that it was asked to take over went.
    #[serde(default)]
    #[schema(value_type = Vec<AdoptedRequest>)]
    adopted: Vec<Object<AdoptedRequest>>,
    /// `apply` or `observe`.
    mode: Option<String>,
}

impl Input for ReportRequest {
    const LIMIT: usize = 16 * 1024 * 1024;
}

/// What was seen for a name.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `domain_id`")]
#[schema(as = EdgeObservation)]
struct ObservationRequest {
    /// The domain.
    #[schema(format = Uuid)]
    domain_id: String,
    /// SHA-256 of the leaf that is served; null when the name is not.
    sha256: Option<String>,
    /// Why it is not as desired.
    #[schema(value_type = Option<NoteRequest>)]
    error: Option<Object<NoteRequest>>,
}

/// Why something did not work.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `code` and `detail`")]
#[schema(as = NoteRequest)]
struct NoteRequest {
    /// Stable, for programs.
    code: String,
    /// For people.
    #[serde(default)]
    detail: String,
}

/// A file at the edge that is none of ours.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `file` and `names`")]
#[schema(as = StrangerReport)]
struct StrangerRequest {
    /// The file, as the proxy knows it.
    file: String,
    /// The names its certificate covers.
    #[serde(default)]
    names: Vec<String>,
    /// SHA-256 of its leaf.
    sha256: Option<String>,
    /// Is it served for a name of ours?
    #[serde(default)]
    shadows: bool,
}

/// How taking over a file went.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `file` and `name`")]
#[schema(as = AdoptedReport)]
struct AdoptedRequest {
    /// The file.
    file: String,
    /// The name.
    name: String,
    /// Why it was not taken over.
    #[schema(value_type = Option<NoteRequest>)]
    error: Option<Object<NoteRequest>>,
}

/// Takes a report: what was applied and seen.
#[utoipa::path(
    post, path = "/v1/edges/{edge}/report", operation_id = "reportEdge", tag = "edge feed",
    params(
        ("edge" = String, Path, description = "The edge's name"),
        ("session" = Option<i64>, Query, description = "As the registration gave it", minimum = 0),
        ("sequence" = Option<i64>, Query, description = "Rises with every report of the session; one that comes after a later one changes nothing", minimum = 0),
    ),
    request_body = ReportRequest,
    responses(
        (status = 204, description = "Taken"),
    ),
)]
pub(in crate::routes) async fn take(
    edge: AtEdge,
    State(state): State<AppState>,
    mut params: Params,
    Body(request): Body<ReportRequest>,
) -> Result<StatusCode, Problem> {
    let order = order(&mut params)?;
    params.end()?;
    let report = EdgeReport { order, ..report(request)? };
    let known = edge.known(&state).await?;
    let actor = state.actor(&edge.caller);
    let taken = state.store.observe(known.id, &report, &actor).await;
    taken.map_err(|error| edge.gone(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Beside the body, because releases before this one refuse a body with more than they know.
fn order(params: &mut Params) -> Result<Option<ReportOrder>, Problem> {
    let (session, sequence) = (number(params, "session")?, number(params, "sequence")?);
    match (session, sequence) {
        (Some(session), Some(sequence)) => Ok(Some(ReportOrder { session, sequence })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(query::invalid("sequence", "Give `sequence` with `session`.")),
        (None, Some(_)) => Err(query::invalid("session", "Give `session` with `sequence`.")),
    }
}

fn number(params: &mut Params, name: &'static str) -> Result<Option<i64>, Problem> {
    let Some(text) = params.text(name)? else { return Ok(None) };
    let number = text.parse().ok().filter(|number: &i64| *number >= 0);
    number.map(Some).ok_or_else(|| {
        let text = field::shown(&text);
        query::invalid(name, format!("`{name}` is a number from 0, not `{text}`."))
    })
}

/// A report, taken apart and checked.
fn report(request: ReportRequest) -> Result<EdgeReport, Problem> {
    let count = request.observations.len();
    if count > OBSERVATIONS {
        let detail = format!("{count} observations were sent; send {OBSERVATIONS} at a time.");
        return Err(Problem::new(Kind::TooManyItems, detail));
    }
    let up_to = request.up_to.parse().map_err(|_| {
        let given = field::shown(&request.up_to);
        field::invalid("up_to", format!("`{given}` is no revision; they look like `1.42`."))
    })?;
    let observations = request.observations.into_iter().map(observation);
    let adopted = request.adopted.into_iter().map(adopted);
    Ok(EdgeReport {
        up_to,
        observations: observations.collect::<Result<_, _>>()?,
        error: request.error.map(note).transpose()?,
        strangers: request.strangers.map(strangers).transpose()?,
        adopted: adopted.collect::<Result<_, _>>()?,
        mode: request.mode.map(|mode| super::mode("mode", mode)).transpose()?,
        order: None,
    })
}

fn observation(Object(seen): Object<ObservationRequest>) -> Result<Observation, Problem> {
    let domain: DomainId = seen.domain_id.parse().map_err(|_| {
        let given = field::shown(&seen.domain_id);
        field::invalid("observations.domain_id", format!("`{given}` is no id of a domain."))
    })?;
    let sha256 = fingerprint("observations.sha256", seen.sha256)?;
    Ok(Observation { domain, sha256, error: seen.error.map(note).transpose()? })
}

fn fingerprint(name: &str, given: Option<String>) -> Result<Option<String>, Problem> {
    let is_hex = |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    match given {
        Some(text) if !is_hex(&text) => {
            let shown = field::shown(&text);
            Err(field::invalid(name, format!("`{shown}` is no SHA-256 in hex.")))
        }
        given => Ok(given.map(|text| text.to_ascii_lowercase())),
    }
}

fn note(Object(given): Object<NoteRequest>) -> Result<Note, Problem> {
    let code = field::text("error.code", given.code, field::NAME)?;
    let calm = |c: char| if c.is_control() { ' ' } else { c };
    Ok(Note { code: code.into(), detail: given.detail.chars().take(DETAIL).map(calm).collect() })
}

/// The same file twice: the later word counts.
fn strangers(given: Vec<Object<StrangerRequest>>) -> Result<Vec<Stranger>, Problem> {
    let mut kept = BTreeMap::new();
    for Object(one) in given {
        let file = field::text("strangers.file", one.file, FILE)?;
        // What a certificate says need not be a name; what could be none is of no use to anybody.
        let names = one.names.into_iter().filter(|name| is_printable(name));
        let names = names.map(|name| name.to_ascii_lowercase()).collect();
        let sha256 = fingerprint("strangers.sha256", one.sha256)?;
        let stranger = Stranger { file: file.clone(), names, sha256, shadows: one.shadows };
        kept.insert(file, stranger);
    }
    Ok(kept.into_values().collect())
}

fn is_printable(name: &str) -> bool {
    name.len() <= field::KEY && name.chars().all(|c| c.is_ascii_graphic())
}

fn adopted(Object(given): Object<AdoptedRequest>) -> Result<Adopted, Problem> {
    let file = field::text("adopted.file", given.file, FILE)?;
    let name = Hostname::parse_host(&given.name)?;
    let error = given.error.map(note).transpose()?;
    Ok(Adopted { adoption: Adoption { file, name }, error })
}
