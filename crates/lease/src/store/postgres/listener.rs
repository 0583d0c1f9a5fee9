//! Wake-ups by `LISTEN`, on a connection of their own.

use async_trait::async_trait;
use sqlx::postgres::PgListener;

use super::CHANNEL;
use crate::error::StoreError;
use crate::identity::Name;
use crate::session::{Hosts, Life, ask_for_writes};
use crate::store::Listener;

const DOING: &str = "listening for wake-ups";

pub(super) struct PostgresListener {
    hosts: Hosts,
    session: Option<Session>,
}

struct Session {
    connection: PgListener,
    server_process: i32,
    life: Life,
}

impl PostgresListener {
    pub(super) fn new(hosts: Hosts) -> Self {
        Self { hosts, session: None }
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
        let opened = self.hosts.listener().await;
        let mut connection = opened.map_err(|error| StoreError::new(DOING, error))?;
        let server_process = who(&mut connection).await?;
        connection.listen(CHANNEL).await.map_err(failed)?;
        let life = Life::begin(Life::LONGEST);
        self.session = Some(Session { connection, server_process, life });
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
        if who(&mut session.connection).await? != session.server_process || session.life.is_over() {
            return Err(lost());
        }
        // Nobody tells anything on a server that takes no writes.
        ask_for_writes(&mut session.connection).await.map_err(|fault| StoreError::new(DOING, fault))
    }
}
