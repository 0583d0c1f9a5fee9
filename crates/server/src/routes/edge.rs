//! Edges: listed and shown to people, registered by their agents. What agents then ask for is in the files beside.

pub(super) mod adoption;
pub(super) mod bundle;
pub(super) mod changes;
pub(super) mod desired;
pub(super) mod difference;
pub(super) mod removal;
pub(super) mod report;
pub(super) mod stranger;

use axum::Json;
use axum::extract::State;
use holdfast_store::{EdgeAgent, NewEdge, Page, Scope};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::{Anyone, Caller};
use crate::body::{Body, Input, Object};
use crate::edge::AtEdge;
use crate::page::List;
use crate::path::Segment;
use crate::view::{EdgeDetail, EdgeView, RegisteredEdge};
use crate::{AppState, Kind, Problem, audit, field};

/// How many refusals and strangers stand in the detail of an edge; the lists beside have all.
const SHOWN: u32 = 100;

/// Lists the edges; an edge's token sees its own group.
#[utoipa::path(
    get, path = "/v1/edges", operation_id = "listEdges", tag = "edges",
    responses(
        (status = 200, description = "All edges", body = List<EdgeView>),
    ),
)]
pub(super) async fn list(
    Anyone(caller): Anyone,
    State(state): State<AppState>,
) -> Result<Json<List<EdgeView>>, Problem> {
    let edges = state.store.edges().await?;
    let visible = |group: &str| is_visible(&caller, group);
    let edges = edges.into_iter().filter(|edge| visible(&edge.group)).map(EdgeView::from);
    Ok(Json(List::whole(edges.collect())))
}

fn is_visible(caller: &Caller, group: &str) -> bool {
    caller.scope != Scope::Edge || caller.group.as_deref() == Some(group)
}

/// Finds an edge for somebody who looks; an edge's token sees its own group.
async fn seen_by(
    state: &AppState,
    caller: &Caller,
    name: &str,
) -> Result<holdfast_store::Edge, Problem> {
    let edge = state.store.edge_named(name).await?.ok_or_else(|| none(name))?;
    if is_visible(caller, &edge.group) {
        return Ok(edge);
    }
    let detail =
        format!("Edge `{}` is of group `{}`, which is not the token's.", edge.name, edge.group);
    audit::refused(state, caller, "edge-refused", &edge.name, &detail).await;
    Err(Problem::new(Kind::WrongGroup, detail))
}

fn none(name: &str) -> Problem {
    let name = field::shown(name);
    let detail = format!("There is no edge `{name}`; `holdfast edge list` shows those there are.");
    Problem::new(Kind::NotFound, detail)
}

/// Shows an edge with the names it refuses and the strangers it found, the first hundred of each, and what it found different when the
/// database was restored.
#[utoipa::path(
    get, path = "/v1/edges/{edge}", operation_id = "getEdge", tag = "edges",
    params(("edge" = String, Path, description = "The edge's name")),
    responses(
        (status = 200, description = "The edge", body = EdgeDetail),
    ),
)]
pub(super) async fn show(
    Anyone(caller): Anyone,
    State(state): State<AppState>,
    Segment(name): Segment,
) -> Result<Json<EdgeDetail>, Problem> {
    let edge = seen_by(&state, &caller, &name).await?;
    let page = Page { limit: SHOWN, after: None };
    let refused = state.store.refusals(edge.id, &page).await?;
    let strangers = state.store.strangers(edge.id, &page).await?;
    let difference = state.store.difference(edge.id).await?;
    Ok(Json(EdgeDetail::new(edge, refused.items, strangers.items, difference)))
}

/// What an agent says when it makes its edge known.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object, which may be empty")]
pub(super) struct EdgeRegistration {
    /// Its group; an edge's token fixes it.
    group: Option<String>,
    /// What the agent is.
    #[schema(value_type = Option<AgentRequest>)]
    agent: Option<Object<AgentRequest>>,
}

/// What an agent says of itself.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `version`, `target` and `mode`")]
#[schema(as = AgentFacts)]
struct AgentRequest {
    /// Its release.
    version: Option<String>,
    /// What it sits beside: `haproxy`, `files`.
    target: Option<String>,
    /// `apply` or `observe`.
    mode: Option<String>,
}

impl Input for EdgeRegistration {}

/// Makes an edge known, or finds it again.
#[utoipa::path(
    put, path = "/v1/edges/{edge}", operation_id = "registerEdge", tag = "edge feed",
    params(("edge" = String, Path, description = "The edge's name")),
    request_body = EdgeRegistration,
    responses(
        (status = 200, description = "Known from now on", body = RegisteredEdge),
    ),
)]
pub(super) async fn register(
    edge: AtEdge,
    State(state): State<AppState>,
    Body(request): Body<EdgeRegistration>,
) -> Result<Json<RegisteredEdge>, Problem> {
    let asked = field::optional("group", request.group, field::NAME)?;
    let group = group(&state, &edge, asked).await?;
    require_newest(&state, &edge, &group).await?;
    let agent = request.agent.map(facts).transpose()?.unwrap_or_default();
    let before = state.store.edge_identity(&edge.name).await?;
    let new = NewEdge { name: edge.name.clone(), group: group.clone() };
    let known = state.store.register_edge(&new).await?;
    if agent != EdgeAgent::default() {
        state.store.describe_edge(known.id, &agent).await?;
    }
    if before.is_none_or(|before| before.group != group) {
        let detail = format!("edge `{}` registered for group `{group}`", edge.name);
        let actor = state.actor(&edge.caller);
        state.store.notice(&actor, "edge-registered", &edge.name, &detail).await?;
    }
    let session = state.store.open_session(known.id).await.map_err(|error| edge.gone(error))?;
    Ok(Json(RegisteredEdge::new(known, session)))
}

async fn group(state: &AppState, edge: &AtEdge, asked: Option<String>) -> Result<String, Problem> {
    match (&edge.caller.group, asked) {
        (Some(own), Some(asked)) if *own != asked => {
            let what = format!("Registering edge `{}` so", edge.name);
            Err(edge.wrong_group(state, &what, &asked).await)
        }
        (Some(own), _) => Ok(own.clone()),
        (None, Some(asked)) => Ok(asked),
        (None, None) => Ok(state.edge_group.clone()),
    }
}

/// Two tokens of one edge for two groups, each in an agent's hands, would have it move to and fro for ever: the newer one counts.
async fn require_newest(state: &AppState, edge: &AtEdge, group: &str) -> Result<(), Problem> {
    if edge.caller.scope != Scope::Edge {
        return Ok(());
    }
    let newest = state.store.edge_token(&edge.name).await?.and_then(|newest| newest.group);
    let Some(newer) = newest.filter(|newest| newest != group) else { return Ok(()) };
    let detail = format!(
        "Edge `{}` has a newer token, for group `{newer}`; use that one, or revoke it.",
        edge.name
    );
    audit::refused(state, &edge.caller, "edge-refused", &edge.name, &detail).await;
    Err(Problem::new(Kind::WrongGroup, detail))
}

fn facts(Object(agent): Object<AgentRequest>) -> Result<EdgeAgent, Problem> {
    Ok(EdgeAgent {
        version: field::optional("agent.version", agent.version, field::NAME)?,
        target: field::optional("agent.target", agent.target, field::NAME)?,
        mode: agent.mode.map(|mode| self::mode("agent.mode", mode)).transpose()?,
    })
}

/// How an agent works.
fn mode(name: &str, mode: String) -> Result<String, Problem> {
    if matches!(mode.as_str(), "apply" | "observe") {
        return Ok(mode);
    }
    let given = field::shown(&mode);
    Err(field::invalid(name, format!("`{given}` is no mode; it is `apply` or `observe`.")))
}
