//! CAs: what may be ordered there, and pauses by hand.

use std::cmp::Reverse;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use holdfast_model::WaitScope;
use holdfast_store::{CaAccount, QueueCounts};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::{Admin, Reader};
use crate::body::{Body, Input};
use crate::page::List;
use crate::path::Segment;
use crate::view::{CaExtras, CaView, ca_host};
use crate::{AppState, Kind, Problem, field};

/// The longest pause that has an end.
const LONGEST: u64 = 366 * 24 * 3600;

/// How many names or registered domains are shown of each scope.
const WAITS_SHOWN: u32 = 20;

/// Lists the CAs that there is an account at, and the one that is configured.
#[utoipa::path(
    get, path = "/v1/cas", operation_id = "listCas", tag = "cas",
    responses(
        (status = 200, description = "All CAs", body = List<CaView>),
    ),
)]
pub(super) async fn list(
    _reader: Reader,
    State(state): State<AppState>,
) -> Result<Json<List<CaView>>, Problem> {
    Ok(Json(List::whole(all(&state).await?)))
}

/// A CA: the account there, the budget, the queue, and what keeps it from ordering.
#[utoipa::path(
    get, path = "/v1/cas/{name}", operation_id = "getCa", tag = "cas",
    params(("name" = String, Path, description = "The CA's name")),
    responses(
        (status = 200, description = "The CA", body = CaView),
    ),
)]
pub(super) async fn show(
    _reader: Reader,
    State(state): State<AppState>,
    Segment(name): Segment,
) -> Result<Json<CaView>, Problem> {
    one(&state, &name).await.map(Json)
}

/// For how long.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object, perhaps with `seconds`")]
pub(super) struct PauseRequest {
    /// For so many seconds; without it, until it is resumed.
    #[schema(minimum = 1, maximum = 31_622_400)]
    seconds: Option<u64>,
}

impl Input for PauseRequest {}

/// Pauses a CA by hand: nothing is ordered there, whatever the CA says, until the pause ends or is resumed. Orders that are open go on.
#[utoipa::path(
    post, path = "/v1/cas/{name}/pause", operation_id = "pauseCa", tag = "cas",
    params(("name" = String, Path, description = "The CA's name")),
    request_body = Option<PauseRequest>,
    responses(
        (status = 200, description = "Paused", body = CaView),
    ),
)]
pub(super) async fn pause(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(name): Segment,
    request: Option<Body<PauseRequest>>,
) -> Result<Json<CaView>, Problem> {
    let seconds = request.and_then(|Body(request)| request.seconds);
    if let Some(seconds) = seconds.filter(|seconds| !(1..=LONGEST).contains(seconds)) {
        let detail = format!("`seconds` is {seconds}; it is from 1 to {LONGEST}, or left out.");
        return Err(Problem::new(Kind::InvalidField, detail).with("field", "seconds"));
    }
    let account = account(&state, &name).await?;
    let wait = seconds.map(Duration::from_secs);
    let name = name_of(&state, &account.directory);
    state.store.halt_account(account.id, wait, &state.actor(&caller), &name).await?;
    one(&state, &account.directory).await.map(Json)
}

/// Lifts every pause of a CA, also one that the CA asked for. Again is the same.
#[utoipa::path(
    post, path = "/v1/cas/{name}/resume", operation_id = "resumeCa", tag = "cas",
    params(("name" = String, Path, description = "The CA's name")),
    responses(
        (status = 200, description = "Nothing keeps it from ordering", body = CaView),
    ),
)]
pub(super) async fn resume(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(name): Segment,
) -> Result<Json<CaView>, Problem> {
    let account = account(&state, &name).await?;
    let name = name_of(&state, &account.directory);
    state.store.resume_account(account.id, &state.actor(&caller), &name).await?;
    one(&state, &account.directory).await.map(Json)
}

fn name_of(state: &AppState, directory: &str) -> String {
    let own = state.ca_name.clone().filter(|_| directory == state.directory);
    own.unwrap_or_else(|| ca_host(directory))
}

/// How well does a name fit a CA? As it is listed, it means that one. Explanations and alerts know the host alone; the directory
/// always tells it apart.
fn fit(state: &AppState, directory: &str, name: &str) -> u8 {
    match () {
        () if name == directory => 3,
        () if name == name_of(state, directory) => 2,
        () if name == ca_host(directory) => 1,
        () => 0,
    }
}

fn is_named(state: &AppState, directory: &str, name: &str) -> bool {
    fit(state, directory, name) > 0
}

fn absent(name: &str) -> Problem {
    let name = field::shown(name);
    let detail = format!("There is no CA `{name}`; `holdfast ca list` shows those there are.");
    Problem::new(Kind::NotFound, detail)
}

/// Of several with one name, the one that is configured.
async fn account(state: &AppState, name: &str) -> Result<CaAccount, Problem> {
    let accounts = state.store.ca_accounts(state.limits).await?;
    let meant = |account: &CaAccount| is_named(state, &account.directory, name);
    let mut meant: Vec<_> = accounts.into_iter().filter(meant).collect();
    meant.sort_by_key(|account| {
        let fit = fit(state, &account.directory, name);
        (Reverse(fit), account.directory != state.directory)
    });
    if let Some(account) = meant.into_iter().next() {
        return Ok(account);
    }
    if is_named(state, &state.directory, name) {
        let detail = format!(
            "There is no account at {} yet; it is made for the first order.",
            state.directory
        );
        return Err(Problem::new(Kind::NotFound, detail));
    }
    Err(absent(name))
}

async fn one(state: &AppState, name: &str) -> Result<CaView, Problem> {
    let is_it = |view: &CaView| is_named(state, view.directory(), name);
    let mut meant: Vec<_> = all(state).await?.into_iter().filter(is_it).collect();
    meant.sort_by_key(|view| (Reverse(fit(state, view.directory(), name)), !view.is_active()));
    meant.into_iter().next().ok_or_else(|| absent(name))
}

async fn all(state: &AppState) -> Result<Vec<CaView>, Problem> {
    let accounts = state.store.ca_accounts(state.limits).await?;
    let queue = state.store.queue_counts().await?;
    let mut views = Vec::with_capacity(accounts.len() + 1);
    if !accounts.iter().any(|account| account.directory == state.directory) {
        let name = name_of(state, &state.directory);
        views.push(CaView::unknown(name, state.directory.clone(), state.limits));
    }
    for account in accounts {
        let extras = extras(state, &account, queue).await?;
        views.push(CaView::of(name_of(state, &account.directory), &account, extras));
    }
    Ok(views)
}

async fn extras(
    state: &AppState,
    account: &CaAccount,
    queue: QueueCounts,
) -> Result<CaExtras, Problem> {
    let directory = &account.directory;
    let mut waits = Vec::new();
    for scope in WaitScope::ALL {
        waits.extend(state.store.waits(account.id, *scope, WAITS_SHOWN).await?);
    }
    Ok(CaExtras {
        terms: state.store.terms(directory).await?,
        active: (*directory == state.directory).then_some((state.limits, queue)),
        waits,
    })
}
