//! Wake-ups by `LISTEN`, on a connection of their own.

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use super::CHANNEL;
use crate::error::StoreError;
use crate::identity::Name;
use crate::store::Listener;

pub(super) struct PostgresListener {
    options: PgConnectOptions,
    listener: Option<PgListener>,
}

impl PostgresListener {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        Self { options, listener: None }
    }
}

#[async_trait]
impl Listener for PostgresListener {
    async fn connect(&mut self) -> Result<(), StoreError> {
        let failed = |error| StoreError::new("listening for wake-ups", error);
        // The listener of sqlx wants a pool; this one holds its single connection.
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await.map_err(failed)?;
        listener.ignore_pool_close_event(true);
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await.map_err(failed)?;
        self.listener = Some(listener);
        Ok(())
    }

    async fn next(&mut self) -> Result<Name, StoreError> {
        let doing = "listening for wake-ups";
        loop {
            let lost = || StoreError::new(doing, "the connection ended");
            let listener = self.listener.as_mut().ok_or_else(lost)?;
            let told = listener.try_recv().await.map_err(|error| StoreError::new(doing, error))?;
            let Some(told) = told else {
                self.listener = None;
                return Err(lost());
            };
            // A name that cannot be one was told by someone else.
            if let Ok(name) = Name::new(told.payload()) {
                return Ok(name);
            }
        }
    }
}
