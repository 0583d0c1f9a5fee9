//! Domains: add, list, show, change.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdfast_model::Hostname;
use holdfast_store::{DomainFilter, DomainPatch, Paged};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use crate::auth::{Admin, Reader};
use crate::body::{Body, Input};
use crate::intake::{self, DomainRequest};
use crate::page::{self, List, PageParams};
use crate::path::DomainKey;
use crate::query::Params;
use crate::view::DomainView;
use crate::{AppState, Kind, Problem, field, serving};

/// Adds a domain, or finds the same request's. After that domain was removed the same request is 410 `removed`, with `removed_at`.
#[utoipa::path(
    post, path = "/v1/domains", operation_id = "addDomain", tag = "domains",
    request_body = DomainRequest,
    responses(
        (status = 201, description = "Added", body = DomainView),
        (status = 200, description = "The same request again: the same domain, as it stands", body = DomainView),
    ),
)]
pub(super) async fn add(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Body(request): Body<DomainRequest>,
) -> Result<Response, Problem> {
    let now = intake::clock(&state, std::iter::once(&request)).await?;
    let new = request.check(&state, &state.actor(&caller), now)?;
    let added = state.store.add(&new).await?;
    let status = if added.created { StatusCode::CREATED } else { StatusCode::OK };
    let view = serving::show(&state, &caller, added.domain).await?;
    Ok((status, [(header::LOCATION, view.location())], tagged(view)).into_response())
}

/// The answer with its version as an entity tag.
pub(super) fn tagged(view: DomainView) -> impl IntoResponse {
    ([(header::ETAG, view.etag())], Json(view))
}

/// Lists domains by name.
#[utoipa::path(
    get, path = "/v1/domains", operation_id = "listDomains", tag = "domains",
    params(
        ("state" = Option<String>, Query, description = "In this state"),
        ("tenant" = Option<String>, Query, description = "Of this tenant"),
        ("q" = Option<String>, Query, description = "With names that begin so"),
        PageParams,
    ),
    responses(
        (status = 200, description = "A part of the list", body = List<DomainView>),
    ),
)]
pub(super) async fn list(
    Reader(caller): Reader,
    State(state): State<AppState>,
    mut params: Params,
) -> Result<Json<List<DomainView>>, Problem> {
    let page = page::take(&mut params)?;
    let filter = filter(&mut params)?;
    params.end()?;
    let Paged { items, next } = state.store.domains(&filter, &page).await?;
    let items = serving::show_all(&state, &caller, items).await?;
    Ok(Json(List::of(Paged { items, next }, |view| view)))
}

fn filter(params: &mut Params) -> Result<DomainFilter, Problem> {
    Ok(DomainFilter {
        state: params.text("state")?.map(|text| text.parse()).transpose()?,
        tenant: params.text("tenant")?,
        prefix: params.text("q")?.map(|text| prefix(&text)),
    })
}

/// What was typed as names are kept: each label by itself, because the last one may be unfinished.
fn prefix(typed: &str) -> String {
    let label = |text: &str| {
        if text.is_ascii() {
            return text.to_ascii_lowercase();
        }
        let padded = Hostname::parse_host(&format!("{text}.example"));
        let mapped = padded
            .ok()
            .and_then(|name| name.as_str().strip_suffix(".example").map(ToOwned::to_owned));
        mapped.unwrap_or_else(|| text.to_lowercase())
    };
    typed.split('.').map(label).collect::<Vec<_>>().join(".")
}

/// Shows a domain.
#[utoipa::path(
    get, path = "/v1/domains/{domain}", operation_id = "getDomain", tag = "domains",
    params(("domain" = String, Path, description = "A name or an id")),
    responses(
        (status = 200, description = "The domain", body = DomainView),
    ),
)]
pub(super) async fn show(
    Reader(caller): Reader,
    State(state): State<AppState>,
    key: DomainKey,
) -> Result<impl IntoResponse, Problem> {
    let domain = key.find(&state).await?;
    Ok(tagged(serving::show(&state, &caller, domain).await?))
}

/// What may be changed of a domain; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with what is to change")]
pub(super) struct DomainChanges {
    /// Null clears it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    tenant: Option<Option<String>>,
    /// A new resource; conflicts as in adding.
    resource: Option<String>,
    /// A new group: the certificate is deployed there.
    edge_group: Option<String>,
    /// New labels, all of them; null clears them.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    labels: Option<Option<BTreeMap<String, String>>>,
}

impl Input for DomainChanges {}

/// Tells null from absent.
fn given<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

impl DomainChanges {
    fn check(self) -> Result<DomainPatch, Problem> {
        let tenant = self.tenant.map(|tenant| field::optional("tenant", tenant, field::KEY));
        let labels = self.labels.map(|labels| field::labels(labels.unwrap_or_default()));
        Ok(DomainPatch {
            tenant: tenant.transpose()?,
            resource: field::optional("resource", self.resource, field::KEY)?,
            edge_group: field::optional("edge_group", self.edge_group, field::NAME)?,
            labels: labels.transpose()?,
        })
    }
}

/// Changes a domain, if nobody else did meanwhile.
#[utoipa::path(
    patch, path = "/v1/domains/{domain}", operation_id = "changeDomain", tag = "domains",
    params(
        ("domain" = String, Path, description = "A name or an id"),
        ("If-Match" = String, Header, description = "The `version` it was seen with, quoted; `*` for any"),
    ),
    request_body = DomainChanges,
    responses(
        (status = 200, description = "The domain, changed", body = DomainView),
    ),
)]
pub(super) async fn patch(
    Admin(caller): Admin,
    State(state): State<AppState>,
    key: DomainKey,
    headers: HeaderMap,
    Body(changes): Body<DomainChanges>,
) -> Result<impl IntoResponse, Problem> {
    let expected = if_match(&headers)?;
    let patch = changes.check()?;
    let domain = key.find_lasting(&state).await?;
    let changed = state.store.patch(domain.id, expected, &patch, &state.actor(&caller)).await?;
    Ok(tagged(serving::show(&state, &caller, changed).await?))
}

/// The version that must still be; none for any.
fn if_match(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(given) = headers.get(header::IF_MATCH) else {
        let detail = "Send If-Match with the `version` you saw, so that nobody's change is lost; `*` for any.";
        return Err(Problem::new(Kind::PreconditionRequired, detail));
    };
    let text = given.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    bare.parse().map(Some).map_err(|_| {
        let detail = format!(
            "If-Match is `{}`, which is no version of a domain; read it again.",
            field::shown(text)
        );
        Problem::new(Kind::VersionMismatch, detail)
    })
}
