//! Challenge answers.

use async_trait::async_trait;
use holdfast_model::Hostname;

use super::{SqliteStore, sql};
use crate::{
    ChallengeAnswer, Challenges, OpenChallenge, Result,
    query::challenge::{BY_NAME, BY_TOKEN, OPEN},
    row::{answer, open_challenge},
};

#[async_trait]
impl Challenges for SqliteStore {
    async fn challenge_answer(&self, token: &str) -> Result<Option<ChallengeAnswer>> {
        let row = self.readers.row("read a challenge", sql(BY_TOKEN).bind(token)).await?;
        row.as_ref().map(answer).transpose()
    }

    async fn alpn_answer(&self, name: &Hostname) -> Result<Option<ChallengeAnswer>> {
        let row = self.readers.row("read a challenge", sql(BY_NAME).bind(name.as_str())).await?;
        row.as_ref().map(answer).transpose()
    }

    async fn open_challenges(&self, limit: u32) -> Result<Vec<OpenChallenge>> {
        let rows = self.readers.rows("read challenges", sql(OPEN).bind(i64::from(limit))).await?;
        rows.iter().map(open_challenge).collect()
    }
}
