//! Challenge answers.

use async_trait::async_trait;
use holdfast_model::Hostname;

use super::{PostgresStore, sql};
use crate::{
    ChallengeAnswer, Challenges, OpenChallenge, Result,
    query::challenge::{BY_NAME, BY_TOKEN, OPEN},
    row::{answer, open_challenge},
};

#[async_trait]
impl Challenges for PostgresStore {
    async fn challenge_answer(&self, token: &str) -> Result<Option<ChallengeAnswer>> {
        // Anybody may ask, with anything: PostgreSQL's text cannot even hold a NUL.
        if token.contains('\0') {
            return Ok(None);
        }
        let row = self.pool.row("read a challenge", sql(BY_TOKEN).bind(token)).await?;
        row.as_ref().map(answer).transpose()
    }

    async fn alpn_answer(&self, name: &Hostname) -> Result<Option<ChallengeAnswer>> {
        let row = self.pool.row("read a challenge", sql(BY_NAME).bind(name.as_str())).await?;
        row.as_ref().map(answer).transpose()
    }

    async fn open_challenges(&self, limit: u32) -> Result<Vec<OpenChallenge>> {
        let rows = self.pool.rows("read challenges", sql(OPEN).bind(i64::from(limit))).await?;
        rows.iter().map(open_challenge).collect()
    }
}
