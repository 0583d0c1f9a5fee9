//! The account at the CA: one that an operator has already can be brought along.

use axum::Json;
use axum::extract::State;
use holdfast_acme::account_key;
use holdfast_store::{Account, NewAccount, Secret};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::Admin;
use crate::body::{Body, Input};
use crate::{AppState, Kind, Problem};

/// An account's key.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with a `key`")]
pub(super) struct AccountRequest {
    /// PEM (PKCS #8 or SEC 1), or a JWK as text; ECDSA P-256.
    #[schema(value_type = String, format = Password)]
    key: KeyText,
}

impl Input for AccountRequest {}

/// A private key on its way into a [`Secret`]: it has no `Debug`, and no copy of it stays behind here.
#[derive(Deserialize)]
#[serde(from = "String")]
struct KeyText(Secret);

impl From<String> for KeyText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

/// An account, less its key.
#[derive(Serialize, ToSchema)]
#[schema(as = AcmeAccount)]
pub(super) struct AccountView {
    /// The ACME directory it is at.
    directory: String,
    /// The CA's URL of it; null until the CA was asked.
    url: Option<String>,
}

/// Takes the key of an existing account for the configured directory, if there is none yet. The CA is asked when the first
/// certificate is due.
#[utoipa::path(
    post, path = "/v1/acme/account", operation_id = "importAccount", tag = "acme",
    request_body = AccountRequest,
    responses(
        (status = 201, description = "Kept", body = AccountView),
        (status = 200, description = "It is the one there is", body = AccountView),
    ),
)]
pub(super) async fn import(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Body(request): Body<AccountRequest>,
) -> Result<(StatusCode, Json<AccountView>), Problem> {
    let key = account_key(&request.key.0)
        .map_err(|error| Problem::new(Kind::InvalidKey, error.to_string()).with("field", "key"))?;
    if let Some(present) = state.store.account(&state.directory, state.limits).await? {
        return same(present, &key).map(|view| (StatusCode::OK, Json(view)));
    }
    let new = NewAccount { directory: state.directory.clone(), key: key.clone(), email: None };
    // Whoever came first meanwhile has made it.
    let view = same(state.store.journal_account(&new).await?, &key)?;
    let detail = "an existing account's key was imported";
    state.store.notice(&state.actor(&caller), "account-imported", &state.directory, detail).await?;
    Ok((StatusCode::CREATED, Json(view)))
}

fn same(present: Account, key: &Secret) -> Result<AccountView, Problem> {
    if present.key.expose() == key.expose() {
        return Ok(AccountView { directory: present.directory, url: present.url });
    }
    let detail = format!(
        "An account at {} is in use already, with another key; certificates are renewed with it, whatever account they came from. To use this one, import it before the first replica starts (`holdfast import --acme-account KEY --config FILE`).",
        present.directory
    );
    Err(Problem::new(Kind::AccountExists, detail))
}
