//! Wake-ups by `LISTEN`, on a connection of their own.

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use super::CHANNEL;
use crate::error::StoreError;
use crate::identity::Name;
use crate::store::Listener;

const DOING: &str = "listening for wake-ups";

pub(super) struct PostgresListener {
    options: PgConnectOptions,
    session: Option<Session>,
}

struct Session {
    connection: PgListener,
    server_process: i32,
}

impl PostgresListener {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        Self { options, session: None }
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::new(DOING, error)
}

fn lost() -> StoreError {
    StoreError::new(DOING, "the connection ended")
}

async fn who(connection: &mut PgListener) -> Result<i32, StoreError> {
    let asked = sqlx::query_scalar("SELECT pg_backend_pid()");
    asked.fetch_one(connection).await.map_err(failed)
}

#[async_trait]
impl Listener for PostgresListener {
    async fn connect(&mut self) -> Result<(), StoreError> {
        self.session = None;
        // The listener of sqlx wants a pool; this one holds its single connection.
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.options.clone());
        let mut connection = PgListener::connect_with(&pool).await.map_err(failed)?;
        connection.ignore_pool_close_event(true);
        connection.eager_reconnect(false);
        let server_process = who(&mut connection).await?;
        connection.listen(CHANNEL).await.map_err(failed)?;
        self.session = Some(Session { connection, server_process });
        Ok(())
    }

    async fn next(&mut self) -> Result<Name, StoreError> {
        loop {
            let session = self.session.as_mut().ok_or_else(lost)?;
            let Some(told) = session.connection.try_recv().await.map_err(failed)? else {
                self.session = None;
                return Err(lost());
            };
            // A name that cannot be one was told by someone else.
            if let Ok(name) = Name::new(told.payload()) {
                return Ok(name);
            }
        }
    }

    async fn check(&mut self) -> Result<(), StoreError> {
        let session = self.session.as_mut().ok_or_else(lost)?;
        // The listener would reconnect by itself, and say nothing of what it missed: so it is asked who it is.
        match who(&mut session.connection).await? {
            same if same == session.server_process => Ok(()),
            _ => Err(lost()),
        }
    }
}
