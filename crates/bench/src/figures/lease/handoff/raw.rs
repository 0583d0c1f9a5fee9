//! The least that a handoff in PostgreSQL can be: one statement that frees and notifies, one that takes.

use std::time::Duration;

use anyhow::{Context as _, Result};
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::time::{Instant, sleep};

use super::COURTESY;

const TABLE: &str = "CREATE TABLE bare (name text PRIMARY KEY, holder text, term bigint NOT NULL, expires_at timestamptz); \
                     INSERT INTO bare VALUES ('sweep', 'ann', 1)";

const FREE: &str = "WITH freed AS (UPDATE bare SET holder = NULL WHERE name = 'sweep' AND holder IS NOT NULL RETURNING name) \
                    SELECT pg_notify('bare', name) FROM freed";

const TAKE: &str = "UPDATE bare SET holder = $1, term = term + 1, expires_at = clock_timestamp() + interval '30 seconds' \
                    WHERE name = 'sweep' AND holder IS NULL";

/// Two connections, and one that listens.
pub(super) struct Raw {
    holder: PgConnection,
    next: PgConnection,
    listener: PgListener,
}

impl Raw {
    pub(super) async fn start(url: &str) -> Result<Self> {
        let mut holder = PgConnection::connect(url).await?;
        holder.execute(TABLE).await?;
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy(url)?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen("bare").await?;
        Ok(Self { holder, next: PgConnection::connect(url).await?, listener })
    }

    /// After a pause as long as an elector's: what has just run is faster than what has slept.
    pub(super) async fn hand_over(&mut self) -> Result<Duration> {
        let Self { holder, next, listener } = self;
        sleep(2 * COURTESY).await;
        let begun = Instant::now();
        let free = sqlx::query(FREE).execute(holder);
        let take = async {
            listener.recv().await?;
            sqlx::query(TAKE).bind("bob").execute(next).await
        };
        let (freed, taken) = tokio::join!(free, take);
        freed?;
        let taken = taken?;
        let took = begun.elapsed();
        (taken.rows_affected() == 1).then_some(took).context("it was not taken")
    }
}
