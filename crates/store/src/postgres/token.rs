//! API tokens, as hashes.

use async_trait::async_trait;
use sqlx::Postgres;
use uuid::Uuid;

use super::{PostgresStore, sql};
use crate::{Error, NewToken, Result, Token, TokenId, Tokens, pool::Statement, row::token};

const KEEP: &str = "
    INSERT INTO token (id, name, scope, hash, edge, edge_group, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp()) ON CONFLICT (hash) DO NOTHING";
/// Whoever asks next waits here, and then sees what we did. If we stand still meanwhile, not for longer than it has patience.
const FIRST: &str = "
    SELECT one, set_config('idle_in_transaction_session_timeout', '5s', true) FROM first_token FOR UPDATE";
const OTHER: &str =
    "SELECT 1 FROM token WHERE scope = 'admin' AND revoked_at IS NULL AND hash <> $1 LIMIT 1";
const BY_HASH: &str = "SELECT * FROM token WHERE hash = $1";
const LIVE: &str = "SELECT * FROM token WHERE hash = $1 AND revoked_at IS NULL";
const OF_EDGE: &str = "
    SELECT * FROM token WHERE edge = $1 AND scope = 'edge' AND revoked_at IS NULL ORDER BY created_at DESC, id DESC LIMIT 1";
const ALL: &str = "SELECT * FROM token ORDER BY created_at, id";
const REVOKE: &str =
    "UPDATE token SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = $1";

#[async_trait]
impl Tokens for PostgresStore {
    async fn keep_token(&self, new: &NewToken) -> Result<Token> {
        let keep = keep(new);
        self.pool.execute("keep a token", keep).await?;
        let row = self.pool.one("read a token", sql(BY_HASH).bind(new.hash.as_slice())).await?;
        token(&row)?.ok_or(Error::NotFound("token"))
    }

    async fn keep_first_token(&self, new: &NewToken) -> Result<Option<Token>> {
        let hash = new.hash.as_slice();
        let mut transaction = self.pool.begin("keep the first token").await?;
        transaction.rows(sql(FIRST)).await?;
        if transaction.row(sql(OTHER).bind(hash)).await?.is_some() {
            transaction.abandon().await?;
            return Ok(None);
        }
        transaction.execute(keep(new)).await?;
        let row = transaction.one(sql(BY_HASH).bind(hash)).await?;
        transaction.commit().await?;
        token(&row)
    }

    async fn token(&self, hash: &[u8; 32]) -> Result<Option<Token>> {
        let row = self.pool.row("read a token", sql(LIVE).bind(hash.as_slice())).await?;
        Ok(row.as_ref().map(token).transpose()?.flatten())
    }

    async fn edge_token(&self, edge: &str) -> Result<Option<Token>> {
        let row = self.pool.row("read an edge's token", sql(OF_EDGE).bind(edge)).await?;
        Ok(row.as_ref().map(token).transpose()?.flatten())
    }

    async fn tokens(&self) -> Result<Vec<Token>> {
        let rows = self.pool.rows("list tokens", sql(ALL)).await?;
        rows.iter().filter_map(|row| token(row).transpose()).collect()
    }

    async fn revoke_token(&self, id: TokenId) -> Result<()> {
        let revoked = self.pool.execute("revoke a token", sql(REVOKE).bind(id.0)).await?;
        if revoked.rows_affected() > 0 { Ok(()) } else { Err(Error::NotFound("token")) }
    }
}

fn keep(new: &NewToken) -> Statement<Postgres> {
    sql(KEEP)
        .bind(Uuid::now_v7())
        .bind(new.name.as_str())
        .bind(new.scope.as_str())
        .bind(new.hash.as_slice())
        .bind(new.edge.as_deref())
        .bind(new.group.as_deref())
}
