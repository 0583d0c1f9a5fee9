//! A store whose terms can fall back (Redis), with its terms registered in a database where they cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgConnection;
use tracing::warn;

use super::{Token, postgres};
use crate::error::{Error, StoreError};
use crate::identity::{Name, Term};
use crate::request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed};
use crate::row::{Entry, Row};
use crate::session::{Hosts, Life};
use crate::store::{Listener, Look, Store};

/// How often a term may be refused before the acquisition is given up.
const TRIES: u32 = 3;

/// A store in which a lease is granted only when its term is registered in PostgreSQL: an old term that comes back, after a
/// lost counter, is raised above what was registered.
///
/// ```no_run
/// # async fn example(database: &str) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use holdfast_lease::fence::{Registered, postgres};
/// use holdfast_lease::store::redis::{RedisAddress, RedisStore};
/// use holdfast_lease::{Elector, Name, Options, Wish};
/// use sqlx::{Connection as _, PgConnection};
///
/// let options = Options::default();
/// let address = RedisAddress::new("redis://127.0.0.1:6379");
/// let redis = RedisStore::new(address, &options.key_prefix, options.request_timeout)?;
/// let store = Registered::new(redis, database, options.request_timeout)?;
/// let elector = Elector::start(store, &options)?;
/// let lease = elector.contend(&Name::new("ledger")?, Wish::default());
/// lease.elected().await?;
///
/// // Redis may forget a term; the database does not, and refuses the write of one that is over.
/// let Some(token) = lease.token() else { return Ok(()) };
/// let mut connection = PgConnection::connect(database).await?;
/// let write = postgres::guard_registered(&mut connection, &token, Duration::from_secs(10)).await?;
/// // … write here, by this transaction …
/// write.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct Registered<S> {
    store: S,
    hosts: Hosts,
    connection: Option<(PgConnection, Life)>,
    raised: Arc<AtomicU64>,
}

impl<S: Store> Registered<S> {
    /// Registers the terms of `store` in the database at this URL, which has the schema of the PostgreSQL store.
    pub fn new(store: S, url: &str, request_timeout: Duration) -> Result<Self, Error> {
        let limit = format!("{}ms", request_timeout.as_millis().max(1));
        let hosts = Hosts::parse(url)?.named("holdfast-lease-fence");
        let hosts = hosts.with_settings([("statement_timeout", limit)]);
        Ok(Self { store, hosts, connection: None, raised: Arc::default() })
    }

    /// How often a term had fallen back and was raised.
    pub fn raised(&self) -> Arc<AtomicU64> {
        self.raised.clone()
    }

    async fn register(&mut self, token: &Token) -> Result<Result<(), Term>, StoreError> {
        let mut connection = match self.connection.take().filter(|(_, life)| !life.is_over()) {
            Some(connection) => connection,
            None => {
                let opened = self.hosts.connect().await;
                let failed = |error| StoreError::new("connecting to the fence", error);
                (opened.map_err(failed)?, Life::begin(Life::LONGEST))
            }
        };
        let registered = postgres::register(&mut connection.0, token).await?;
        self.connection = Some(connection);
        Ok(registered)
    }
}

#[async_trait]
impl<S: Store> Store for Registered<S> {
    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError> {
        let mut request = request.clone();
        for _ in 0..TRIES {
            let answer = self.store.acquire(&request).await?;
            let Acquired::Granted(row) = &answer.answer else { return Ok(answer) };
            let (name, incarnation) = (request.name.clone(), request.incarnation);
            let token = Token { name, term: row.term, incarnation };
            match self.register(&token).await? {
                Ok(()) => return Ok(answer),
                Err(registered) => {
                    self.raised.fetch_add(1, Ordering::Relaxed);
                    warn!(lease = %request.name, term = %row.term, %registered, "a term had fallen back: raised");
                    request.above = request.above.max(registered);
                }
            }
        }
        Err(StoreError::new("registering a term", "others register faster"))
    }

    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError> {
        self.store.look(names).await
    }

    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError> {
        self.store.renew(request).await
    }

    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError> {
        self.store.release(request).await
    }

    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError> {
        self.store.ask(request).await
    }

    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError> {
        self.store.force(request).await
    }

    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError> {
        self.store.list(after, limit).await
    }

    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        self.store.history(name, before, limit).await
    }

    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError> {
        self.store.prune(older_than).await
    }

    fn disconnect(&mut self) {
        self.store.disconnect();
        self.connection = None;
    }

    fn listener(&self) -> Option<Box<dyn Listener>> {
        self.store.listener()
    }
}
