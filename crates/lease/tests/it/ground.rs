//! A place for leases of each kind, real, that any number of stores and electors can share.

use std::sync::Arc;
use std::time::Duration;

use holdfast_lease::clock::BootClock;
use holdfast_lease::row::{Entry, Row};
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::store::redis::{RedisAddress, RedisStore};
use holdfast_lease::store::sqlite::SqliteStore;
use holdfast_lease::store::{MemoryStore, Store};
use holdfast_lease::{Elector, Holder, Name, Options};
use holdfast_testkit::{Postgres, Redis, Scratch, eventually};

pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Settings under which someone is followed soon, and nobody is lost to a machine that is busy for a moment.
pub(crate) fn quick() -> Options {
    Options::with_lease(Duration::from_secs(3), Duration::from_secs(1))
}

/// Settings under which, within [`SOON`], nothing happens by itself: whoever does something was told to.
pub(crate) fn patient() -> Options {
    let lasts = SOON * 3;
    let options = Options::with_lease(lasts, SOON);
    // Requests that fail on a busy machine are repeated soon all the same.
    let soon = Duration::from_secs(5);
    Options {
        poll_interval: lasts,
        request_timeout: soon,
        retry_interval: soon / 10,
        margin: soon,
        ..options
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Where leases are kept.
pub(crate) enum Ground {
    Memory(MemoryStore),
    Postgres(String),
    Redis(Box<Redis>),
    Sqlite(Scratch),
}

impl Ground {
    pub(crate) async fn memory() -> Self {
        Self::Memory(MemoryStore::new())
    }

    pub(crate) async fn postgres() -> Self {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        PostgresStore::new(&url, SOON).unwrap().apply_schema().await.unwrap();
        Self::Postgres(url)
    }

    pub(crate) async fn redis() -> Self {
        Self::Redis(Box::new(Redis::start().await.unwrap()))
    }

    pub(crate) async fn sqlite() -> Self {
        let ground = Scratch::new().unwrap();
        let file = ground.path().join("leases.db");
        SqliteStore::new(&file, SOON).apply_schema().await.unwrap();
        Self::Sqlite(ground)
    }

    /// Whether anything wakes those who wait.
    pub(crate) fn wakes(&self) -> bool {
        !matches!(self, Self::Sqlite(_))
    }

    pub(crate) fn store(&self, limit: Duration) -> Box<dyn Store> {
        match self {
            Self::Memory(store) => Box::new(store.clone()),
            Self::Postgres(url) => Box::new(PostgresStore::new(url, limit).unwrap()),
            Self::Redis(redis) => {
                let address = RedisAddress::new(redis.url());
                Box::new(RedisStore::new(address, "holdfast:leader:", limit).unwrap())
            }
            Self::Sqlite(directory) => {
                Box::new(SqliteStore::new(&directory.path().join("leases.db"), limit))
            }
        }
    }

    pub(crate) fn elector(&self, who: &str, options: &Options) -> Elector {
        elector(self.store(options.request_timeout), who, options)
    }

    /// Waits until the row of a lease is as wanted.
    pub(crate) async fn row(&self, lease: &Name, what: &str, wanted: impl Fn(&Row) -> bool) -> Row {
        let mut store = self.store(SOON);
        eventually(SOON, what, async || {
            let looked = store.look(std::slice::from_ref(lease)).await;
            let looked = looked.map_err(|error| format!("{error:?}"))?.answer;
            match looked.into_iter().next() {
                Some((Some(row), _)) if wanted(&row) => Ok(row),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Waits until the owner of a lease was seen to act this often: the row then.
    pub(crate) async fn renewed(&self, lease: &Name, times: usize) -> Row {
        let mut row = self.row(lease, "an owner", |row| row.owner.is_some()).await;
        for _ in 0..times {
            let last = row.beat;
            row = self.row(lease, "a renewal", |row| row.beat != last).await;
        }
        row
    }

    /// The last changes of owner, newest first.
    pub(crate) async fn history(&self, lease: &Name) -> Vec<Entry> {
        self.store(SOON).history(lease, None, 1_000).await.unwrap()
    }
}

/// An elector over any store.
pub(crate) fn elector(store: Box<dyn Store>, who: &str, options: &Options) -> Elector {
    let holder = Holder::new(who).unwrap();
    Elector::start_as(store, options, holder, Arc::new(BootClock)).unwrap()
}

/// Waits for something that can be asked at any time.
pub(crate) async fn until(what: &str, mut is: impl FnMut() -> bool) {
    eventually(SOON, what, async || if is() { Ok(()) } else { Err("not yet") }).await;
}
