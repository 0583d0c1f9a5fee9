//! Who asks, and may they? Every request under `/v1` passes [`authenticate`]; each handler then names the scope it
//! needs by the extractor it takes.

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use holdfast_store::{Scope, Token};
use http::request::Parts;
use http::{HeaderMap, header};

use crate::serve::CertifiedEdge;
use crate::{AppState, Kind, Problem, token};

/// The holder of the token that came with a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) hash: [u8; 32],
    pub(crate) edge: Option<String>,
    pub(crate) group: Option<String>,
}

impl Caller {
    fn of(token: Token, hash: [u8; 32]) -> Self {
        let Token { name, scope, edge, group, .. } = token;
        Self { name, scope, hash, edge, group }
    }

    /// Orchestration ids are keys to locks: only those who may unlock see them.
    pub(crate) fn sees_orchestration_ids(&self) -> bool {
        self.scope == Scope::Admin
    }
}

/// Lets only those with a valid token through.
pub(crate) async fn authenticate(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let edge = request.extensions().get::<CertifiedEdge>();
    let caller = match (bearer(request.headers()), edge) {
        (Ok(text), _) => by_token(&state, text).await?,
        (Err(_), Some(edge)) => by_certificate(&state, edge).await?,
        (Err(refused), None) => return Err(refused),
    };
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

async fn by_token(state: &AppState, text: &str) -> Result<Caller, Problem> {
    let hash = token::hash(text);
    let token = state.store.token(&hash).await?.ok_or_else(|| {
        let detail = "The token is unknown or revoked; make one with `holdfast token create`.";
        Problem::new(Kind::Unauthorized, detail)
            .header(header::WWW_AUTHENTICATE, "Bearer realm=\"holdfast\", error=\"invalid_token\"")
    })?;
    Ok(Caller::of(token, hash))
}

/// A client certificate for an edge stands for that edge's token: the row says which group it is for, and revoking it ends both.
async fn by_certificate(state: &AppState, edge: &CertifiedEdge) -> Result<Caller, Problem> {
    let token = state.store.edge_token(&edge.0).await?.ok_or_else(|| {
        let detail = format!(
            "The client certificate is for edge `{}`, which has no token; make one with `holdfast token create --scope edge`.",
            edge.0
        );
        Problem::new(Kind::Unauthorized, detail)
            .header(header::WWW_AUTHENTICATE, "Bearer realm=\"holdfast\"")
    })?;
    Ok(Caller::of(token, token::hash(&edge.0)))
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
        .map(|(_, token)| token.trim())
        .ok_or_else(|| {
            let detail =
                "Send `Authorization: Bearer TOKEN`; make a token with `holdfast token create`.";
            Problem::new(Kind::Unauthorized, detail)
                .header(header::WWW_AUTHENTICATE, "Bearer realm=\"holdfast\"")
        })
}

/// A caller who may do everything.
pub(crate) struct Admin(pub(crate) Caller);

/// A caller who may look: scope admin or read.
pub(crate) struct Reader(pub(crate) Caller);

/// A caller who may have private keys: scope admin, or edge for its own group.
pub(crate) struct Keyholder(pub(crate) Caller);

/// A caller with any scope.
pub(crate) struct Anyone(pub(crate) Caller);

macro_rules! scoped {
    ($($name:ident: $($scope:ident)|+;)*) => {$(
        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
                caller(parts, &[$(Scope::$scope),+]).map(Self)
            }
        }
    )*};
}

scoped! {
    Admin: Admin;
    Reader: Admin | Read;
    Keyholder: Admin | Edge;
    Anyone: Admin | Read | Edge;
}

fn caller(parts: &Parts, allowed: &[Scope]) -> Result<Caller, Problem> {
    // Absent only on a route outside `authenticate`, which then admits nobody.
    let caller = parts.extensions.get::<Caller>().cloned();
    let caller =
        caller.ok_or_else(|| Problem::new(Kind::Unauthorized, "No token was looked at."))?;
    if allowed.contains(&caller.scope) {
        return Ok(caller);
    }
    let needed: Vec<_> = allowed.iter().map(|scope| scope.as_str()).collect();
    let (scope, needed) = (caller.scope.as_str(), needed.join(" or "));
    let detail = format!("The token `{}` has scope {scope}; this needs {needed}.", caller.name);
    Err(Problem::new(Kind::Forbidden, detail))
}
