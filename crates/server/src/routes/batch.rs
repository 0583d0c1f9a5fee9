//! Many domains at once: a result per item, and one that cannot be had does not touch the others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use axum::Json;
use axum::extract::State;
use futures_util::{StreamExt as _, stream};
use holdfast_model::Hostname;
use holdfast_store::{Added, Error, NewDomain};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::auth::{Admin, Caller};
use crate::body::{self, Body, Input};
use crate::intake::{self, DomainRequest};
use crate::problem::ProblemDocument;
use crate::view::DomainView;
use crate::{AppState, Kind, Problem, request, serving};

/// Most items of one batch.
const MOST: usize = 1_000;

/// How many items are tried at once in a dry run.
const TRIED_AT_ONCE: usize = 8;

/// Many domains to add.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `items`")]
pub(super) struct Batch {
    /// Up to 1,000, each as for a single one.
    #[schema(value_type = Vec<DomainRequest>, max_items = 1000)]
    items: Vec<Value>,
    /// Only say what would happen.
    #[serde(default)]
    dry_run: bool,
}

impl Input for Batch {
    // A thousand names, each with an imported chain.
    const LIMIT: usize = 16 * 1024 * 1024;
}

/// What came of one item.
#[derive(Serialize, ToSchema)]
pub(super) struct BatchResult {
    /// The status the item would have had by itself.
    status: u16,
    /// The domain, if there is one; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<DomainView>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemDocument>,
}

/// What came of the items, in their order.
#[derive(Serialize, ToSchema)]
pub(super) struct BatchAnswer {
    /// One for each item.
    items: Vec<BatchResult>,
}

/// Adds many domains, each with its own result.
#[utoipa::path(
    post, path = "/v1/domains:batch", operation_id = "addDomains", tag = "domains",
    request_body = Batch,
    responses(
        (status = 200, description = "A result per item", body = BatchAnswer),
    ),
)]
pub(super) async fn add(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Body(batch): Body<Batch>,
) -> Result<Json<BatchAnswer>, Problem> {
    if batch.items.len() > MOST {
        let detail = format!("The batch has {} items; send {MOST} at most.", batch.items.len());
        return Err(Problem::new(Kind::TooManyItems, detail));
    }
    let checked = check(&state, &caller, batch.items).await?;
    let items = match batch.dry_run {
        true => try_all(&state, checked).await,
        false => add_all(&state, &caller, checked).await?,
    };
    Ok(Json(BatchAnswer { items }))
}

async fn check(
    state: &AppState,
    caller: &Caller,
    items: Vec<Value>,
) -> Result<Vec<Result<NewDomain, Problem>>, Problem> {
    let parsed: Vec<Result<DomainRequest, _>> = items.into_iter().map(body::parse_value).collect();
    let now = intake::clock(state, parsed.iter().flatten()).await?;
    let (actor, shared) = (state.actor(caller), state.clone());
    // A thousand chains are a second's work: not on a thread that others wait for.
    let checked = tokio::task::spawn_blocking(move || {
        let check = |request: DomainRequest| request.check(&shared, &actor, now);
        parsed.into_iter().map(|request| request.and_then(check)).collect()
    });
    checked.await.map_err(|error| Problem::from(request::Panicked::from(error)))
}

async fn add_all(
    state: &AppState,
    caller: &Caller,
    checked: Vec<Result<NewDomain, Problem>>,
) -> Result<Vec<BatchResult>, Problem> {
    let mut sound = Vec::new();
    let refusals: Vec<Option<Problem>> =
        checked.into_iter().map(|item| item.map(|new| sound.push(new)).err()).collect();
    let mut added = state.store.add_many(&sound).await?.into_iter();
    let outcomes: Vec<Result<Added, Problem>> = refusals
        .into_iter()
        .map(|refusal| match refusal {
            Some(problem) => Err(problem),
            None => added.next().unwrap_or(Err(Error::HolderVanished)).map_err(Problem::from),
        })
        .collect();
    results(state, caller, outcomes).await
}

async fn results(
    state: &AppState,
    caller: &Caller,
    outcomes: Vec<Result<Added, Problem>>,
) -> Result<Vec<BatchResult>, Problem> {
    // What was just added is served nowhere: only replays are worth a look, one for all of them.
    let replays = outcomes.iter().flatten().filter(|added| !added.created);
    let replays = replays.map(|added| added.domain.clone()).collect();
    let mut shown = serving::show_all(state, caller, replays).await?.into_iter();
    let result = |outcome| match outcome {
        Err(problem) => BatchResult::refused(problem),
        Ok(Added { domain, created: true }) => BatchResult {
            status: 201,
            domain: Some(DomainView::new(domain, None, &state.addresses, caller)),
            problem: None,
        },
        Ok(Added { created: false, .. }) => {
            BatchResult { status: 200, domain: shown.next(), problem: None }
        }
    };
    Ok(outcomes.into_iter().map(result).collect())
}

impl BatchResult {
    fn refused(problem: Problem) -> Self {
        let problem = problem.document();
        Self { status: problem.status(), domain: None, problem: Some(problem) }
    }
}

async fn try_all(state: &AppState, checked: Vec<Result<NewDomain, Problem>>) -> Vec<BatchResult> {
    let tried = apart(checked).into_iter().map(|item| try_one(state, item));
    stream::iter(tried).buffered(TRIED_AT_ONCE).collect().await
}

async fn try_one(state: &AppState, item: Result<Tried, Problem>) -> BatchResult {
    let tried = match item {
        Ok(Tried { new, repeated }) => {
            state.store.would_add(&new).await.map(|made| made && !repeated).map_err(Problem::from)
        }
        Err(problem) => Err(problem),
    };
    match tried {
        Ok(made) => {
            BatchResult { status: if made { 201 } else { 200 }, domain: None, problem: None }
        }
        Err(problem) => BatchResult::refused(problem),
    }
}

/// An item of a dry run; one that repeats another of its batch would find it there.
struct Tried {
    new: NewDomain,
    repeated: bool,
}

/// The store is asked about each item by itself, so two items that want the same name are told apart here.
fn apart(checked: Vec<Result<NewDomain, Problem>>) -> Vec<Result<Tried, Problem>> {
    let mut first: HashMap<Hostname, (usize, String)> = HashMap::new();
    let mut apart = Vec::with_capacity(checked.len());
    for (place, item) in checked.into_iter().enumerate() {
        apart.push(item.and_then(|new| match first.entry(new.name.clone()) {
            Entry::Occupied(taken) if taken.get().1 != new.orchestration_id => {
                let detail = format!(
                    "`{}` is wanted by item {} of this batch already; leave one out.",
                    new.name,
                    taken.get().0
                );
                Err(Problem::new(Kind::NameInUse, detail))
            }
            Entry::Occupied(_) => Ok(Tried { new, repeated: true }),
            Entry::Vacant(free) => {
                free.insert((place, new.orchestration_id.clone()));
                Ok(Tried { new, repeated: false })
            }
        }));
    }
    apart
}
