//! Claims: one orchestration owns a resource, and perhaps a name, at a time.

use axum::Json;
use axum::extract::State;
use holdfast_model::Hostname;
use holdfast_store::ClaimRequest;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::{Admin, Reader};
use crate::body::{Body, Input};
use crate::path::Segment;
use crate::query::{self, Params};
use crate::view::ClaimView;
use crate::{AppState, Kind, Problem, field};

/// What is claimed with the resource, and for whom.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with an `orchestration_id`")]
pub(super) struct NewClaim {
    /// A name; none or empty claims the resource alone.
    name: Option<String>,
    /// The idempotency key, which is also the key to the lock.
    orchestration_id: String,
}

impl Input for NewClaim {}

/// Claims a resource, or finds the same orchestration's claim.
#[utoipa::path(
    put, path = "/v1/claims/{resource}", operation_id = "claimResource", tag = "claims",
    params(("resource" = String, Path, description = "The operator's own key")),
    request_body = NewClaim,
    responses(
        (status = 201, description = "Claimed", body = ClaimView),
        (status = 200, description = "The same request again: the same claim", body = ClaimView),
    ),
)]
pub(super) async fn put(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(resource): Segment,
    Body(new): Body<NewClaim>,
) -> Result<(StatusCode, Json<ClaimView>), Problem> {
    let name = new
        .name
        .filter(|name| !name.is_empty())
        .map(|name| Hostname::parse(&name)?.outside(&state.targets));
    let request = ClaimRequest {
        resource: field::text("resource", resource, field::KEY)?,
        name: name.transpose()?,
        orchestration_id: field::text("orchestration_id", new.orchestration_id, field::KEY)?,
    };
    let (claim, created) = state.store.claim_resource(&request).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(ClaimView::new(claim, &caller))))
}

/// Shows the live claim on a resource, else the latest released one.
#[utoipa::path(
    get, path = "/v1/claims/{resource}", operation_id = "getClaim", tag = "claims",
    params(("resource" = String, Path, description = "The operator's own key")),
    responses(
        (status = 200, description = "The claim", body = ClaimView),
    ),
)]
pub(super) async fn show(
    Reader(caller): Reader,
    State(state): State<AppState>,
    Segment(resource): Segment,
) -> Result<Json<ClaimView>, Problem> {
    let resource = field::text("resource", resource, field::KEY)?;
    let claim = state.store.claim_on(&resource).await?.ok_or_else(|| {
        let detail = format!("Nobody ever claimed `{}`.", field::shown(&resource));
        Problem::new(Kind::NotFound, detail)
    })?;
    Ok(Json(ClaimView::new(claim, &caller)))
}

/// Gives a claim back; again is the same.
#[utoipa::path(
    delete, path = "/v1/claims/{resource}", operation_id = "releaseClaim", tag = "claims",
    params(
        ("resource" = String, Path, description = "The operator's own key"),
        ("orchestration_id" = String, Query, description = "Whose claim it is"),
    ),
    responses(
        (status = 200, description = "Released", body = ClaimView),
    ),
)]
pub(super) async fn release(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(resource): Segment,
    mut params: Params,
) -> Result<Json<ClaimView>, Problem> {
    let resource = field::text("resource", resource, field::KEY)?;
    let orchestration = params.text("orchestration_id")?.ok_or_else(|| {
        query::invalid("orchestration_id", "Say whose claim it is: `?orchestration_id=ID`.")
    })?;
    params.end()?;
    let claim = state.store.release_resource(&resource, &orchestration).await?;
    Ok(Json(ClaimView::new(claim, &caller)))
}
