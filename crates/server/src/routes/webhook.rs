//! Webhooks: made, listed, tried, looked into, removed. The secret is shown once.

use axum::Json;
use axum::extract::State;
use holdfast_store::{NewWebhook, Secret, Webhook, WebhookId};
use http::{StatusCode, Uri};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::{Admin, Reader};
use crate::body::{Body, Input};
use crate::page::{self, List, PageParams};
use crate::path::Segment;
use crate::query::Params;
use crate::view::{DeliveryView, FreshWebhook, WebhookView};
use crate::webhook::{KINDS, mint, parse, ping};
use crate::{AppState, Kind, Problem, field};

/// Longest URL kept.
const LONGEST: usize = 2_048;

/// How often a test is put down anew where the log moves on meanwhile.
const TRIES: u32 = 10;

/// What a webhook is to be.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with a `url`")]
pub(super) struct WebhookRequest {
    /// Where messages go: http or https, without a user and without a fragment.
    url: String,
    /// The kinds it wants; all there are where none is given.
    events: Option<Vec<String>>,
    /// What messages are signed with: `whsec_` and 24 to 64 bytes in base64; made where none is given.
    secret: Option<String>,
}

impl Input for WebhookRequest {}

impl WebhookRequest {
    fn check(self) -> Result<(NewWebhook, String), Problem> {
        let url = url(field::text("url", self.url, LONGEST)?)?;
        let events = self.events.as_deref().map_or_else(|| Ok(every()), events)?;
        let (secret, shown) = match self.secret {
            None => mint()?,
            Some(text) => (given(&text)?, text),
        };
        Ok((NewWebhook { url, events, secret }, shown))
    }
}

fn every() -> Vec<String> {
    KINDS.map(ToOwned::to_owned).to_vec()
}

fn events(given: &[String]) -> Result<Vec<String>, Problem> {
    if given.is_empty() {
        return Err(field::invalid("events", "`events` is empty; leave it out to hear of all."));
    }
    let unknown = given.iter().find(|kind| !KINDS.contains(&kind.as_str()));
    if let Some(unknown) = unknown {
        let (shown, kinds) = (field::shown(unknown), KINDS.join(", "));
        let detail = format!("`{shown}` is no kind of event; the kinds are {kinds}.");
        return Err(field::invalid("events", detail));
    }
    Ok(every().into_iter().filter(|kind| given.contains(kind)).collect())
}

fn given(text: &str) -> Result<Secret, Problem> {
    parse(text).ok_or_else(|| {
        let detail =
            "A secret is `whsec_` and 24 to 64 bytes in base64; leave it out to have one made.";
        field::invalid("secret", detail)
    })
}

/// Where it leads is the operator's decision, also into a private network.
fn url(text: String) -> Result<String, Problem> {
    let refuse = |why: &str| {
        let shown = field::shown(&text);
        field::invalid("url", format!("`{shown}` cannot be a webhook's URL: {why}."))
    };
    let uri: Uri = text.parse().map_err(|_| refuse("it cannot be read"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(refuse("it must begin with http:// or https://"));
    }
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    if uri.host().unwrap_or_default().is_empty() || authority.contains('@') {
        return Err(refuse("it needs a host, and no user"));
    }
    if text.contains('#') {
        return Err(refuse("a fragment is never sent"));
    }
    Ok(text)
}

/// Makes a webhook. Its secret is shown in this answer and never again.
#[utoipa::path(
    post, path = "/v1/webhooks", operation_id = "createWebhook", tag = "webhooks",
    request_body = WebhookRequest,
    responses(
        (status = 201, description = "Made", body = FreshWebhook),
    ),
)]
pub(super) async fn create(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Body(request): Body<WebhookRequest>,
) -> Result<(StatusCode, Json<FreshWebhook>), Problem> {
    let (new, secret) = request.check()?;
    let kept = state.store.keep_webhook(&new).await?;
    let (subject, detail) = (kept.id.0.to_string(), format!("messages go to {}", kept.url));
    state.store.notice(&state.actor(&caller), "webhook-created", &subject, &detail).await?;
    Ok((StatusCode::CREATED, Json(FreshWebhook { kept: kept.into(), secret })))
}

/// Lists all webhooks, never their secrets.
#[utoipa::path(
    get, path = "/v1/webhooks", operation_id = "listWebhooks", tag = "webhooks",
    responses(
        (status = 200, description = "All webhooks", body = List<WebhookView>),
    ),
)]
pub(super) async fn list(
    _reader: Reader,
    State(state): State<AppState>,
) -> Result<Json<List<WebhookView>>, Problem> {
    let webhooks = state.store.webhooks().await?;
    Ok(Json(List::whole(webhooks.into_iter().map(WebhookView::from).collect())))
}

/// Forgets a webhook and what it has not been told yet.
#[utoipa::path(
    delete, path = "/v1/webhooks/{id}", operation_id = "removeWebhook", tag = "webhooks",
    params(("id" = String, Path, description = "The webhook's id", format = Uuid)),
    responses(
        (status = 204, description = "Removed"),
    ),
)]
pub(super) async fn remove(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(id): Segment,
) -> Result<StatusCode, Problem> {
    let webhook = find(&state, &id).await?;
    if state.store.remove_webhook(webhook.id).await? {
        let detail = format!("messages went to {}", webhook.url);
        state.store.notice(&state.actor(&caller), "webhook-removed", &id, &detail).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a message of type `ping`, like any other.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/test", operation_id = "testWebhook", tag = "webhooks",
    params(("id" = String, Path, description = "The webhook's id", format = Uuid)),
    responses(
        (status = 202, description = "Put down; its deliveries tell what came of it", body = WebhookView),
    ),
)]
pub(super) async fn test(
    _admin: Admin,
    State(state): State<AppState>,
    Segment(id): Segment,
) -> Result<(StatusCode, Json<WebhookView>), Problem> {
    for _ in 0..TRIES {
        let webhook = find(&state, &id).await?;
        if state.store.put_down(&webhook, webhook.after, &[ping(&id)]).await? {
            return Ok((StatusCode::ACCEPTED, Json(webhook.into())));
        }
    }
    Err(Problem::new(Kind::TryAgain, "The log moves fast at this moment; try again."))
}

/// Lists a webhook's messages, newest first, and what came of them.
#[utoipa::path(
    get, path = "/v1/webhooks/{id}/deliveries", operation_id = "listDeliveries", tag = "webhooks",
    params(("id" = String, Path, description = "The webhook's id", format = Uuid), PageParams),
    responses(
        (status = 200, description = "Messages", body = List<DeliveryView>),
    ),
)]
pub(super) async fn deliveries(
    _reader: Reader,
    State(state): State<AppState>,
    Segment(id): Segment,
    mut params: Params,
) -> Result<Json<List<DeliveryView>>, Problem> {
    let page = page::take(&mut params)?;
    params.end()?;
    let webhook = find(&state, &id).await?;
    let page = state.store.deliveries(webhook.id, &page).await?;
    Ok(Json(List::of(page, DeliveryView::from)))
}

async fn find(state: &AppState, id: &str) -> Result<Webhook, Problem> {
    let wanted = Uuid::parse_str(id).ok().map(WebhookId);
    let webhooks = state.store.webhooks().await?;
    webhooks.into_iter().find(|webhook| Some(webhook.id) == wanted).ok_or_else(|| {
        let detail = "There is no such webhook; `holdfast webhook list` shows those there are.";
        Problem::new(Kind::NotFound, detail)
    })
}
