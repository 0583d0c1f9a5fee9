//! Everything an edge should serve: in pages, or streamed whole in bounded memory.

use std::io;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use holdfast_store::{Page, Revision};
use http::{HeaderMap, header};
use serde_json::json;

use crate::edge::AtEdge;
use crate::page::{self, PageParams};
use crate::query::Params;
use crate::view::{ChangeView, DesiredPage};
use crate::{AppState, Problem};

/// Entries read and sent at once.
const PART: u32 = 1_000;

/// Everything the edge should serve, by name; with `Accept: application/x-ndjson` all of it, one entry a line, and a last line
/// `{"end": true, "count": N, "revision": "E.N"}`, without which it is incomplete.
#[utoipa::path(
    get, path = "/v1/edges/{edge}/desired", operation_id = "listDesired", tag = "edge feed",
    params(("edge" = String, Path, description = "The edge's name"), PageParams),
    responses(
        (status = 200, description = "A part of it, or all", content(
            (DesiredPage = "application/json"),
            (String = "application/x-ndjson"),
        )),
    ),
)]
pub(in crate::routes) async fn list(
    edge: AtEdge,
    State(state): State<AppState>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Problem> {
    let page = page::take(&mut params)?;
    params.end()?;
    let group = edge.known(&state).await?.group;
    if !wants_lines(&headers) {
        let part = state.store.desired(&group, &page).await?;
        return Ok(Json(DesiredPage::from(part)).into_response());
    }
    let listing = Listing::begin(state, group).await?;
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, Body::from_stream(listing.parts())).into_response())
}

fn wants_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|one| {
        let essence = one.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/x-ndjson")
    })
}

/// A listing on its way out: at most one part of it is in memory.
struct Listing {
    state: AppState,
    group: String,
    ready: Option<Bytes>,
    next: Option<String>,
    count: u64,
    revision: Revision,
}

impl Listing {
    /// Reads the first part, so that what fails at once is a proper answer.
    async fn begin(state: AppState, group: String) -> Result<Self, Problem> {
        let page = Page { limit: PART, after: None };
        let first = state.store.desired(&group, &page).await?;
        let mut listing = Self {
            state,
            group,
            ready: None,
            next: first.next.clone(),
            count: 0,
            revision: first.revision,
        };
        listing.take(first.items);
        Ok(listing)
    }

    fn take(&mut self, items: Vec<holdfast_store::Change>) {
        let mut text = Vec::new();
        for item in items {
            self.count += 1;
            // Into memory: it cannot fail.
            let _ = serde_json::to_writer(&mut text, &ChangeView::from(item));
            text.push(b'\n');
        }
        if self.next.is_none() {
            let (count, revision) = (self.count, self.revision.to_string());
            let end = json!({ "end": true, "count": count, "revision": revision });
            text.extend_from_slice(end.to_string().as_bytes());
            text.push(b'\n');
        }
        self.ready = Some(text.into());
    }

    fn parts(self) -> impl stream::Stream<Item = io::Result<Bytes>> {
        stream::try_unfold(self, |mut listing| async move {
            let part = listing.part().await?;
            Ok(part.map(|part| (part, listing)))
        })
    }

    async fn part(&mut self) -> io::Result<Option<Bytes>> {
        if let Some(ready) = self.ready.take() {
            return Ok(Some(ready));
        }
        let Some(after) = self.next.take() else { return Ok(None) };
        let page = Page { limit: PART, after: Some(after) };
        match self.state.store.desired(&self.group, &page).await {
            Ok(part) => {
                self.next = part.next;
                self.take(part.items);
                Ok(self.ready.take())
            }
            // Without its last line nobody believes it; the connection breaks.
            Err(error) => {
                Problem::from(error).log();
                Err(io::Error::other("the listing broke off"))
            }
        }
    }
}
