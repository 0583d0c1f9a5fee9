//! The event stream (server-sent events), resumed by `Last-Event-ID` without a gap.

use axum::extract::State;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use holdfast_model::DomainId;
use holdfast_store::EventCursor;
use http::{HeaderMap, header};

use crate::auth::Reader;
use crate::query::{self, Params};
use crate::stream::{HEARTBEAT, Stream};
use crate::view::EventView;
use crate::{AppState, Kind, Problem, field};

/// Streams what happens from now on, or after `Last-Event-ID`: transitions of domains, and notices.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "streamEvents", tag = "events",
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event seen; `0-0` for all there are"),
        ("after" = Option<String>, Query, description = "The same, for those who cannot send the header"),
        ("domain" = Option<String>, Query, description = "Only transitions of the domain with this id", format = Uuid),
    ),
    responses(
        (status = 200, description = "Events named `transition` and `notice`; the data of each is JSON", body = EventView, content_type = "text/event-stream"),
    ),
)]
pub(super) async fn stream(
    Reader(caller): Reader,
    State(state): State<AppState>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Problem> {
    let after = after(&headers, &mut params)?;
    let domain = params.text("domain")?.map(|text| domain(&text)).transpose()?;
    params.end()?;
    if state.shutdown.is_cancelled() {
        let detail = "This replica is shutting down; ask another, with the same Last-Event-ID.";
        return Err(Problem::new(Kind::Draining, detail).header(header::RETRY_AFTER, "1"));
    }
    let stream = Stream::open(state, &caller, after, domain).await?;
    let heartbeat = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    Ok(Sse::new(stream.events()).keep_alive(heartbeat).into_response())
}

fn after(headers: &HeaderMap, params: &mut Params) -> Result<Option<EventCursor>, Problem> {
    let given = params.text("after")?;
    // The header is newer: a client that resumes sends its first URL again.
    let resumed =
        headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").to_owned());
    let Some(text) = resumed.filter(|text| !text.is_empty()).or(given) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let text = field::shown(&text);
        let detail = format!("`{text}` is no id of an event; send the last one seen, or none.");
        Problem::new(Kind::InvalidCursor, detail)
    })
}

fn domain(text: &str) -> Result<DomainId, Problem> {
    text.parse().map_err(|_| {
        let text = field::shown(text);
        query::invalid(
            "domain",
            format!("`{text}` is no id of a domain; `holdfast domain show NAME` has it."),
        )
    })
}
