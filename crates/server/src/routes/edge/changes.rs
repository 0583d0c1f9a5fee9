//! What came after a revision: a long poll, woken by the store, bounded in number and in time.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use holdfast_store::{Adoption, Changes, EdgeIdentity, Revision, Topic};
use http::header;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use crate::edge::{AtEdge, LONGEST_WAIT, UNASKED_LOOK};
use crate::query::{self, Params};
use crate::view::ChangesView;
use crate::{AppState, Kind, Problem, field};

/// Between two looks at first, however often deployments of other groups wake us.
const PACE: Duration = Duration::from_millis(20);

/// Where only other groups are deployed to, again and again, each look comes a little later, up to this.
const SLOWEST: Duration = Duration::from_millis(500);

const LARGEST: u32 = 1_000;

/// What an edge asks for.
struct Asked {
    after: Revision,
    wait: Duration,
    limit: u32,
}

impl Asked {
    fn take(params: &mut Params) -> Result<Self, Problem> {
        let after = params.text("after")?.map(|text| revision(&text)).transpose()?;
        let wait = number(params, "wait", 0..=u32::try_from(LONGEST_WAIT.as_secs()).unwrap_or(0))?;
        let limit = number(params, "limit", 1..=LARGEST)?.unwrap_or(LARGEST);
        let wait = Duration::from_secs(wait.unwrap_or(0).into());
        Ok(Self { after: after.unwrap_or_default(), wait, limit })
    }
}

fn revision(text: &str) -> Result<Revision, Problem> {
    text.parse().map_err(|_| {
        let text = field::shown(text);
        query::invalid("after", format!("`{text}` is no revision; they look like `1.42`."))
    })
}

fn number(
    params: &mut Params,
    name: &'static str,
    range: std::ops::RangeInclusive<u32>,
) -> Result<Option<u32>, Problem> {
    let Some(text) = params.text(name)? else { return Ok(None) };
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.map(Some).ok_or_else(|| {
        let (text, from, to) = (field::shown(&text), range.start(), range.end());
        query::invalid(name, format!("`{name}` is {from} to {to}, not `{text}`."))
    })
}

/// What changed after a revision; waits for it if nothing has.
#[utoipa::path(
    get, path = "/v1/edges/{edge}/changes", operation_id = "pollEdgeChanges", tag = "edge feed",
    params(
        ("edge" = String, Path, description = "The edge's name"),
        ("after" = Option<String>, Query, description = "The revision one has, `EPOCH.NUMBER`; the beginning where none is given"),
        ("wait" = Option<u32>, Query, description = "How many seconds to wait for a change, at most 30", maximum = 30),
        ("limit" = Option<u32>, Query, description = "At most this many", minimum = 1, maximum = 1000),
    ),
    responses(
        (status = 200, description = "What changed, in order of revision", body = ChangesView),
    ),
)]
pub(in crate::routes) async fn poll(
    edge: AtEdge,
    State(state): State<AppState>,
    mut params: Params,
) -> Result<Json<ChangesView>, Problem> {
    let asked = Asked::take(&mut params)?;
    params.end()?;
    let known = edge.known(&state).await?;
    // Before asking: what is deployed while we ask wakes us.
    let mut woken = state.store.wake(Topic::Deployments);
    let draining = state.shutdown.is_cancelled();
    let found = look(&state, &known, &asked).await?;
    if is_news(&found, &asked) || asked.wait.is_zero() {
        return Ok(answer(found));
    }
    if draining {
        let detail = "This replica is shutting down; ask another.";
        return Err(Problem::new(Kind::Draining, detail).header(header::RETRY_AFTER, "1"));
    }
    let _seat = seat(&state)?;
    let deadline = Instant::now() + asked.wait;
    let (mut found, mut pace) = (found, PACE);
    loop {
        let looked = Instant::now();
        tokio::select! {
            () = state.shutdown.cancelled() => return Ok(answer(found)),
            () = sleep_until(deadline) => return Ok(answer(found)),
            // Nobody will wake us any more: only the clock is left.
            Ok(()) = woken.changed() => sleep_until((looked + pace).min(deadline)).await,
            () = sleep_until(looked + UNASKED_LOOK) => {}
        }
        woken.mark_unchanged();
        found = look(&state, &known, &asked).await?;
        edge.is_still(&state, &known).await?;
        if is_news(&found, &asked) {
            return Ok(answer(found));
        }
        pace = (pace * 2).min(SLOWEST);
    }
}

fn seat(state: &AppState) -> Result<OwnedSemaphorePermit, Problem> {
    state.polls.clone().try_acquire_owned().map_err(|_| {
        let detail = "So many edges wait here that one more would be one too many; ask another replica, or later.";
        Problem::new(Kind::TooManyPolls, detail).header(header::RETRY_AFTER, "5")
    })
}

async fn look(
    state: &AppState,
    edge: &EdgeIdentity,
    asked: &Asked,
) -> Result<(Changes, Vec<Adoption>), Problem> {
    let changes = state.store.changes(&edge.group, asked.after, asked.limit).await?;
    let adopt = state.store.adoptions(edge.id).await?;
    Ok((changes, adopt))
}

/// Is there anything to tell at once? That only others' deployments took numbers is told when the wait ends.
fn is_news((changes, adopt): &(Changes, Vec<Adoption>), asked: &Asked) -> bool {
    !changes.items.is_empty()
        || changes.more
        || !adopt.is_empty()
        || changes.up_to.epoch != asked.after.epoch
}

fn answer((changes, adopt): (Changes, Vec<Adoption>)) -> Json<ChangesView> {
    Json(ChangesView::new(changes, adopt))
}
