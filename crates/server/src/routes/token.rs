//! Tokens: made, listed, revoked. The token itself is shown once.

use axum::Json;
use axum::extract::State;
use holdfast_store::{NewToken, Scope, Token, TokenId};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::Admin;
use crate::body::{Body, Input};
use crate::page::List;
use crate::path::Segment;
use crate::view::{FreshToken, TokenView};
use crate::{AppState, Kind, Problem, field, token};

/// What a token is to be for.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with a `scope`")]
pub(super) struct TokenRequest {
    /// For people; stands in the history as the actor. The scope, or the edge's name, where none is given.
    name: Option<String>,
    /// What it may do: `admin`, `read` or `edge`.
    scope: String,
    /// The edge it is for; needed for scope `edge`.
    edge: Option<String>,
    /// The group of that edge; the installation's where none is given.
    group: Option<String>,
}

impl Input for TokenRequest {}

impl TokenRequest {
    fn check(self, state: &AppState, token: &str) -> Result<NewToken, Problem> {
        let scope = Scope::parse(&self.scope).ok_or_else(|| {
            let given = field::shown(&self.scope);
            field::invalid("scope", format!("`{given}` is no scope; give admin, read or edge."))
        })?;
        let name = field::optional("name", self.name, field::NAME)?;
        let edge = field::optional("edge", self.edge, field::NAME)?;
        let group = field::optional("group", self.group, field::NAME)?;
        match (scope, &edge, &group) {
            (Scope::Edge, None, _) => {
                return Err(field::invalid(
                    "edge",
                    "Scope edge needs `edge`: the name of the edge it is for.",
                ));
            }
            (Scope::Admin | Scope::Read, None, None) | (Scope::Edge, Some(_), _) => {}
            _ => {
                return Err(field::invalid(
                    "edge",
                    "`edge` and `group` go with scope edge alone; leave them out.",
                ));
            }
        }
        let group = match scope {
            Scope::Edge => Some(group.unwrap_or_else(|| state.edge_group.clone())),
            Scope::Admin | Scope::Read => None,
        };
        let name = name.or_else(|| edge.clone()).unwrap_or_else(|| scope.as_str().to_owned());
        Ok(NewToken { name, scope, hash: token::hash(token), edge, group })
    }
}

/// Makes a token. It is shown in this answer and never again.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "createToken", tag = "tokens",
    request_body = TokenRequest,
    responses(
        (status = 201, description = "Made", body = FreshToken),
    ),
)]
pub(super) async fn create(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Body(request): Body<TokenRequest>,
) -> Result<(StatusCode, Json<FreshToken>), Problem> {
    let text = token::mint()?;
    let new = request.check(&state, &text)?;
    let kept = state.store.keep_token(&new).await?;
    let detail = format!("token `{}` with scope {} was made", kept.name, kept.scope.as_str());
    let subject = kept.id.0.to_string();
    state.store.notice(&state.actor(&caller), "token-created", &subject, &detail).await?;
    Ok((StatusCode::CREATED, Json(FreshToken { kept: kept.into(), token: text })))
}

/// Lists all tokens, revoked ones too, never the texts.
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "listTokens", tag = "tokens",
    responses(
        (status = 200, description = "All tokens", body = List<TokenView>),
    ),
)]
pub(super) async fn list(
    _admin: Admin,
    State(state): State<AppState>,
) -> Result<Json<List<TokenView>>, Problem> {
    let tokens = state.store.tokens().await?;
    Ok(Json(List::whole(tokens.into_iter().map(TokenView::from).collect())))
}

/// Makes a token useless; again is the same.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", operation_id = "revokeToken", tag = "tokens",
    params(("id" = String, Path, description = "The token's id", format = Uuid)),
    responses(
        (status = 204, description = "Revoked"),
    ),
)]
pub(super) async fn revoke(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(id): Segment,
) -> Result<StatusCode, Problem> {
    let tokens = state.store.tokens().await?;
    let id = Uuid::parse_str(&id).ok().map(TokenId);
    let Some(token) = tokens.iter().find(|token| Some(token.id) == id) else {
        let detail = "There is no such token; `holdfast token list` shows those there are.";
        return Err(Problem::new(Kind::NotFound, detail));
    };
    if token.revoked_at.is_some() {
        return Ok(StatusCode::NO_CONTENT);
    }
    if is_last_admin(&tokens, token) {
        let detail = "Without it nobody could make another; make a new admin token first.";
        return Err(Problem::new(Kind::LastAdminToken, detail));
    }
    state.store.revoke_token(token.id).await?;
    let detail = format!("token `{}` was revoked", token.name);
    let subject = token.id.0.to_string();
    state.store.notice(&state.actor(&caller), "token-revoked", &subject, &detail).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn is_last_admin(tokens: &[Token], token: &Token) -> bool {
    let is_admin = |token: &&Token| token.scope == Scope::Admin && token.revoked_at.is_none();
    is_admin(&token) && tokens.iter().filter(is_admin).count() == 1
}
