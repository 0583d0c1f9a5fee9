//! What a domain went through, also after its removal.

use axum::Json;
use axum::extract::State;
use holdfast_store::Paged;

use crate::auth::Reader;
use crate::page::{self, List, PageParams};
use crate::path::DomainKey;
use crate::query::Params;
use crate::view::HistoryView;
use crate::{AppState, Problem};

/// Lists a domain's transitions, oldest first.
#[utoipa::path(
    get, path = "/v1/domains/{domain}/history", operation_id = "getDomainHistory", tag = "domains",
    params(("domain" = String, Path, description = "A name, or an id also after its removal"), PageParams),
    responses(
        (status = 200, description = "A part of the history", body = List<HistoryView>),
    ),
)]
pub(super) async fn list(
    _reader: Reader,
    State(state): State<AppState>,
    key: DomainKey,
    mut params: Params,
) -> Result<Json<List<HistoryView>>, Problem> {
    let page = page::take(&mut params)?;
    params.end()?;
    let domain = key.find_ever(&state).await?;
    let Paged { items, next } = state.store.history(domain.id, &page).await?;
    let items = items.into_iter().filter_map(HistoryView::of).collect();
    Ok(Json(List::of(Paged { items, next }, |view| view)))
}
