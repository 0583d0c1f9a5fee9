//! The beacon: an advisory lock of a session of its own. PostgreSQL lets go of it when the session ends, and not before.
//!
//! Nobody ever waits for the lock: a blocked session would hold back the server's clean-up of old rows. Followers read who
//! holds what (`pg_locks`), and each session has a key of its own, so that a beacon that is gone stays gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use sqlx::postgres::PgListener;
use uuid::Uuid;

use crate::error::StoreError;
use crate::session::{Hosts, ask_for_writes};
use crate::store::Beacon;

const DOING: &str = "keeping a beacon";

/// The key of the beacon that is lit; zero: none is. Shared by a store and its beacon.
#[derive(Clone, Debug, Default)]
pub(super) struct Key(Arc<AtomicI64>);

impl Key {
    pub(super) fn lit(&self) -> Option<i64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|key| *key != 0)
    }

    fn set(&self, key: i64) {
        self.0.store(key, Ordering::SeqCst);
    }
}

pub(super) struct PostgresBeacon {
    hosts: Hosts,
    key: Key,
    session: Option<Session>,
}

/// A listener is the connection of sqlx that notices its own end; nothing is listened to on it. Its life has no limit: others take
/// its end for the death of this process. It is asked instead whether its server still takes writes.
struct Session {
    connection: PgListener,
    server_process: i32,
}

impl PostgresBeacon {
    pub(super) fn new(hosts: Hosts, key: Key) -> Self {
        Self { hosts: hosts.named("holdfast-lease-beacon"), key, session: None }
    }

    fn put_out(&mut self) {
        self.key.set(0);
        self.session = None;
    }
}

impl Drop for PostgresBeacon {
    fn drop(&mut self) {
        self.put_out();
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::new(DOING, error)
}

fn over() -> StoreError {
    StoreError::new(DOING, "the session ended")
}

#[async_trait]
impl Beacon for PostgresBeacon {
    async fn light(&mut self) -> Result<(), StoreError> {
        self.put_out();
        let (random, _) = Uuid::new_v4().as_u64_pair();
        let key = random.cast_signed() | 1;
        let opened = self.hosts.listener().await;
        let mut connection = opened.map_err(|error| StoreError::new(DOING, error))?;
        let lock = sqlx::query_as("SELECT pg_try_advisory_lock($1), pg_backend_pid()").bind(key);
        let (lit, server_process): (bool, i32) =
            lock.fetch_one(&mut connection).await.map_err(failed)?;
        if !lit {
            return Err(StoreError::new(DOING, "someone else has this key"));
        }
        self.session = Some(Session { connection, server_process });
        self.key.set(key);
        Ok(())
    }

    async fn ended(&mut self) -> StoreError {
        loop {
            let Some(session) = &mut self.session else { return over() };
            match session.connection.try_recv().await {
                // Nothing is listened to: a notification can only be a mistake.
                Ok(Some(_)) => {}
                Ok(None) => self.put_out(),
                Err(error) => {
                    self.put_out();
                    return failed(error);
                }
            }
        }
    }

    async fn check(&mut self) -> Result<(), StoreError> {
        let session = self.session.as_mut().ok_or_else(over)?;
        // The listener would reconnect by itself, to a session without the lock: so it is asked who it is.
        let who = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()");
        let who = who.fetch_one(&mut session.connection).await;
        let same = who.as_ref().ok() == Some(&session.server_process);
        // A beacon on a standby is seen by nobody who takes leases.
        let writes = match same {
            true => ask_for_writes(&mut session.connection).await,
            false => Ok(()),
        };
        if !same || writes.is_err() {
            self.put_out();
        }
        who.map_err(failed)?;
        writes.map_err(|fault| StoreError::new(DOING, fault))?;
        if same { Ok(()) } else { Err(over()) }
    }
}
