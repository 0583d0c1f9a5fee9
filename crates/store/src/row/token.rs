//! A token's row.

use super::Fields;
use crate::{Result, Scope, Token, TokenId};

/// Nothing for a scope that only a newer release knows: it may mean anything, so it opens nothing.
pub(crate) fn token(row: &impl Fields) -> Result<Option<Token>> {
    let Some(scope) = Scope::parse(&row.text("scope")?) else { return Ok(None) };
    Ok(Some(Token {
        id: TokenId(row.id("id")?),
        name: row.text("name")?,
        scope,
        edge: row.maybe_text("edge")?,
        group: row.maybe_text("edge_group")?,
        created_at: row.at("created_at")?,
        revoked_at: row.maybe_at("revoked_at")?,
    }))
}
