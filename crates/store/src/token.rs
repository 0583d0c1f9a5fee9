//! API tokens: shown once, kept as a hash.

use async_trait::async_trait;
use holdfast_model::Timestamp;
use uuid::Uuid;

use crate::Result;

/// Identifies a token without being one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenId(pub Uuid);

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything.
    Admin,
    /// Look, but no bundles and no orchestration ids.
    Read,
    /// What an edge agent needs, for one edge.
    Edge,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Admin, Self::Read, Self::Edge];

    /// As written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Read => "read",
            Self::Edge => "edge",
        }
    }

    /// From what is written.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// A token to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// For people.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// The edge it is for.
    pub edge: Option<String>,
    /// The group of that edge.
    pub group: Option<String>,
}

/// A token, less the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// For people.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// The edge it is for.
    pub edge: Option<String>,
    /// The group of that edge.
    pub group: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ceased to work.
    pub revoked_at: Option<Timestamp>,
}

/// Tokens.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// Keeps a token; the same hash again is the same token.
    async fn keep_token(&self, new: &NewToken) -> Result<Token>;

    /// Keeps the token that an installation begins with: only if there is no other that works and may do everything. However many
    /// try at once, one is kept. None when there is another.
    async fn keep_first_token(&self, new: &NewToken) -> Result<Option<Token>>;

    /// The unrevoked token of this hash.
    async fn token(&self, hash: &[u8; 32]) -> Result<Option<Token>>;

    /// The newest unrevoked token of scope edge for this edge.
    async fn edge_token(&self, edge: &str) -> Result<Option<Token>>;

    /// All tokens, revoked ones too.
    async fn tokens(&self) -> Result<Vec<Token>>;

    /// Makes it useless; again is the same.
    async fn revoke_token(&self, id: TokenId) -> Result<()>;
}
