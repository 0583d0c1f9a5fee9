//! Wake-ups by pub/sub, on a connection of their own.

use async_trait::async_trait;
use futures_util::StreamExt as _;
use redis::aio::PubSub;

use super::address::Route;
use crate::error::StoreError;
use crate::identity::Name;
use crate::store::Listener;

pub(super) struct RedisListener {
    route: Route,
    channel: String,
    connection: Option<PubSub>,
}

impl RedisListener {
    pub(super) fn new(route: Route, channel: String) -> Self {
        Self { route, channel, connection: None }
    }
}

#[async_trait]
impl Listener for RedisListener {
    async fn connect(&mut self) -> Result<(), StoreError> {
        let failed = |error| StoreError::new("listening for wake-ups", error);
        let client = self.route.client().await.map_err(failed)?;
        let mut connection = client.get_async_pubsub().await.map_err(failed)?;
        connection.subscribe(&self.channel).await.map_err(failed)?;
        self.connection = Some(connection);
        Ok(())
    }

    async fn next(&mut self) -> Result<Name, StoreError> {
        let lost = || StoreError::new("listening for wake-ups", "the connection ended");
        loop {
            let connection = self.connection.as_mut().ok_or_else(lost)?;
            let told = connection.on_message().next().await;
            let Some(told) = told else {
                self.connection = None;
                return Err(lost());
            };
            let name = told.get_payload::<String>().ok().and_then(|name| Name::new(name).ok());
            // A name that cannot be one was told by someone else.
            if let Some(name) = name {
                return Ok(name);
            }
        }
    }
}
