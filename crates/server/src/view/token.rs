//! A token, less the token; and a fresh one, once.

use holdfast_model::Timestamp;
use holdfast_store::Token;
use serde::Serialize;
use utoipa::ToSchema;

/// A token, less the token.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub(crate) struct TokenView {
    /// Identifies it without being it.
    #[schema(value_type = String, format = Uuid)]
    id: String,
    /// For people; stands in the history as the actor.
    name: String,
    /// What it may do: `admin`, `read` or `edge`.
    scope: &'static str,
    /// The edge it is for.
    edge: Option<String>,
    /// The group of that edge.
    group: Option<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it ceased to work.
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        Self {
            id: token.id.0.to_string(),
            name: token.name,
            scope: token.scope.as_str(),
            edge: token.edge,
            group: token.group,
            created_at: token.created_at,
            revoked_at: token.revoked_at,
        }
    }
}

/// A token just made; the text is shown here and never again.
#[derive(Serialize, ToSchema)]
pub(crate) struct FreshToken {
    /// What is kept of it.
    #[serde(flatten)]
    pub(crate) kept: TokenView,
    /// The token.
    pub(crate) token: String,
}
