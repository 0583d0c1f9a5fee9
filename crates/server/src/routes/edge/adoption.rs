//! Asking an edge to take over files of strangers that stand before names of ours.

use axum::Json;
use axum::extract::State;
use holdfast_model::Hostname;
use holdfast_store::Adopt;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::Admin;
use crate::body::{Body, Input};
use crate::page::List;
use crate::path::Segment;
use crate::view::AdoptionView;
use crate::{AppState, Kind, Problem, field};

/// Which files; exactly one of the three.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `name`, `file` or `all`")]
pub(in crate::routes) struct AdoptionRequest {
    /// Those that cover this name of ours.
    name: Option<String>,
    /// This one.
    file: Option<String>,
    /// All that cover a name of ours.
    #[serde(default)]
    all: bool,
}

impl Input for AdoptionRequest {}

impl AdoptionRequest {
    fn check(self) -> Result<Adopt, Problem> {
        match (self.name, self.file, self.all) {
            (Some(name), None, false) => Ok(Adopt::Name(Hostname::parse_host(&name)?)),
            (None, Some(file), false) => Ok(Adopt::File(field::text("file", file, 1_024)?)),
            (None, None, true) => Ok(Adopt::All),
            _ => Err(field::invalid("name", "Give one of `name`, `file` or `all: true`.")),
        }
    }
}

/// Asks the edge to take over files that serve names of ours. It is told with its next answer.
#[utoipa::path(
    post, path = "/v1/edges/{edge}/adopt", operation_id = "adoptAtEdge", tag = "edges",
    params(("edge" = String, Path, description = "The edge's name")),
    request_body = AdoptionRequest,
    responses(
        (status = 202, description = "The edge is asked to take these over", body = List<AdoptionView>),
    ),
)]
pub(in crate::routes) async fn ask(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(name): Segment,
    Body(request): Body<AdoptionRequest>,
) -> Result<(StatusCode, Json<List<AdoptionView>>), Problem> {
    let what = request.check()?;
    let edge = super::seen_by(&state, &caller, &name).await?;
    let asked = state.store.adopt(edge.id, &what, &state.actor(&caller)).await?;
    if asked.is_empty() {
        let detail = format!(
            "Edge `{}` has reported no such file with a name that its group is to serve; `holdfast edge show {}` lists what it found.",
            edge.name, edge.name
        );
        return Err(Problem::new(Kind::NotFound, detail));
    }
    let asked = asked.into_iter().map(AdoptionView::from).collect();
    Ok((StatusCode::ACCEPTED, Json(List::whole(asked))))
}
