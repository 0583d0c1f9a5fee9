//! Alerts, decided anew at every asking from counts and samples.

use axum::Json;
use axum::extract::State as Shared;
use holdfast_model::{Domain, State};
use holdfast_store::{DomainFilter, Page};

use crate::alert::{self, Alert, Facts};
use crate::auth::Reader;
use crate::page::List;
use crate::{AppState, Problem};

/// Domains looked at per state: enough to notice, cheap at any size.
const SAMPLE: u32 = 200;

/// Lists what deserves a person's attention now.
#[utoipa::path(
    get, path = "/v1/alerts", operation_id = "listAlerts", tag = "alerts",
    responses(
        (status = 200, description = "All alerts", body = List<Alert>),
    ),
)]
pub(super) async fn list(
    _reader: Reader,
    Shared(state): Shared<AppState>,
) -> Result<Json<List<Alert>>, Problem> {
    let counts = state.store.counts().await?;
    let samples = samples(&state, &counts).await?;
    let account = state.store.account(&state.directory, state.limits).await?;
    let edges = match state.edges_in_use {
        true => state.store.edges().await?,
        false => Vec::new(),
    };
    let now = state.store.ping().await?;
    let facts = Facts {
        now,
        policy: &state.policy,
        counts: &counts,
        samples: &samples,
        edges: &edges,
        account: account.as_ref(),
    };
    Ok(Json(List::whole(alert::alerts(&facts))))
}

async fn samples(
    state: &AppState,
    counts: &[(State, u64)],
) -> Result<Vec<(State, Vec<Domain>)>, Problem> {
    let mut samples = Vec::new();
    let page = Page { limit: SAMPLE, after: None };
    for (of, _) in counts.iter().filter(|(of, count)| *count > 0 && alert::watched(*of)) {
        let filter = DomainFilter { state: Some(*of), ..DomainFilter::default() };
        samples.push((*of, state.store.domains(&filter, &page).await?.items));
    }
    Ok(samples)
}
