//! Leases in a SQLite file: for the processes of one machine.
//!
//! Every change is a `BEGIN IMMEDIATE` transaction that reads the row, applies the rules and writes it back, so this store
//! cannot differ from them. Its clock is the machine's.

mod table;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Connection as _, SqliteConnection};

use super::{Look, Store, wall_clock};
use crate::error::StoreError;
use crate::identity::{Name, Term};
use crate::request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed};
use crate::row::{Entry, Row, StoreTime};
use crate::rules::{Changed, Slot};

/// The tables, as text for the host to apply, in its own migrations or by [`SqliteStore::apply_schema`].
pub const SCHEMA: &str = include_str!("schema.sql");

/// Leases in a SQLite file. It has no wake-ups: followers poll.
pub struct SqliteStore {
    options: SqliteConnectOptions,
    connection: Option<SqliteConnection>,
}

impl SqliteStore {
    /// Leases in this file, made if missing. Opens it at the first call. No call waits for another process longer than
    /// `request_timeout`.
    pub fn new(file: &Path, request_timeout: Duration) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(request_timeout);
        Self { options, connection: None }
    }

    /// The same, for a host that makes the file itself: one that is gone stays gone.
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.options = self.options.create_if_missing(false);
        self
    }

    /// Makes the tables where they are missing. For tests and small programs: a host with migrations applies
    /// [`SCHEMA`] there.
    pub async fn apply_schema(&mut self) -> Result<(), StoreError> {
        let doing = "applying the lease schema";
        let mut connection = self.connection(doing).await?;
        let applied = sqlx::raw_sql(SCHEMA).execute(&mut connection).await;
        applied.map_err(|error| StoreError::new(doing, error))?;
        self.connection = Some(connection);
        Ok(())
    }

    async fn connection(&mut self, doing: &'static str) -> Result<SqliteConnection, StoreError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => SqliteConnection::connect_with(&self.options)
                .await
                .map_err(|error| StoreError::new(doing, error)),
        }
    }

    /// Changes some rows in one transaction. The time is read once the write lock is held, so it never lies before what
    /// another process wrote.
    async fn change<T: Send>(
        &mut self,
        doing: &'static str,
        names: &[&Name],
        change: impl FnOnce(&mut [Slot], StoreTime) -> (T, Vec<(usize, Changed)>, Option<String>) + Send,
    ) -> Result<At<T>, StoreError> {
        let mut connection = self.connection(doing).await?;
        let done = async {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            let mut slots = Vec::with_capacity(names.len());
            for name in names {
                let row = table::read(&mut transaction, name).await?;
                slots.push(Slot { row, ..Slot::default() });
            }
            let before = slots.clone();
            let at = wall_clock();
            let (answer, changed, note) = change(&mut slots, at);
            for ((name, slot), before) in names.iter().zip(&slots).zip(&before) {
                if let Some(row) = slot.row.as_ref().filter(|_| slot != before) {
                    table::write(&mut transaction, name, row).await?;
                }
            }
            for (index, changed) in changed {
                if let Some(name) = names.get(index) {
                    table::record(&mut transaction, name, at, &changed, note.as_deref()).await?;
                }
            }
            transaction.commit().await?;
            Ok(At { at, answer })
        };
        let done = done.await.map_err(|error: sqlx::Error| StoreError::new(doing, error))?;
        self.connection = Some(connection);
        Ok(done)
    }
}

fn first(slots: &mut [Slot]) -> Option<&mut Slot> {
    slots.first_mut()
}

fn changes(changed: Option<Changed>) -> Vec<(usize, Changed)> {
    changed.map(|changed| (0, changed)).into_iter().collect()
}

#[async_trait]
impl Store for SqliteStore {
    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError> {
        let doing = "looking at leases";
        let mut connection = self.connection(doing).await?;
        let mut answer = Vec::with_capacity(names.len());
        let at = wall_clock();
        for name in names {
            let row = table::read(&mut connection, name).await;
            answer.push((row.map_err(|error| StoreError::new(doing, error))?, false));
        }
        self.connection = Some(connection);
        Ok(At { at, answer })
    }

    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError> {
        self.change("acquiring a lease", &[&request.name], |slots, at| {
            let done = first(slots).map(|slot| slot.acquire(request, at));
            let (answer, changed) = done.unwrap_or((Acquired::Refused(None), None));
            (answer, changes(changed), None)
        })
        .await
    }

    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError> {
        let names: Vec<&Name> = request.leases.iter().map(|lease| &lease.name).collect();
        self.change("renewing leases", &names, |slots, at| {
            let renewed = slots
                .iter_mut()
                .zip(&request.leases)
                .map(|(slot, lease)| slot.renew(request, lease, at));
            (renewed.collect(), Vec::new(), None)
        })
        .await
    }

    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError> {
        self.change("releasing a lease", &[&request.name], |slots, at| {
            let done = first(slots).map(|slot| slot.release(request, at));
            let (answer, changed) = done.unwrap_or_default();
            (answer, changes(changed), None)
        })
        .await
    }

    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError> {
        self.change("asking a holder to step down", &[&request.name], |slots, at| {
            (first(slots).is_some_and(|slot| slot.ask(request, at)), Vec::new(), None)
        })
        .await
    }

    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError> {
        self.change("forcing a lease free", &[&request.name], |slots, at| {
            let changed = first(slots).and_then(|slot| slot.force(at));
            let term = changed.as_ref().map(|changed| changed.term);
            (term, changes(changed), Some(request.note.clone()))
        })
        .await
    }

    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError> {
        let doing = "listing leases";
        let mut connection = self.connection(doing).await?;
        let at = wall_clock();
        let rows = table::list(&mut connection, after, limit).await;
        let answer = rows.map_err(|error| StoreError::new(doing, error))?;
        self.connection = Some(connection);
        Ok(At { at, answer })
    }

    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        let doing = "reading the history of a lease";
        let mut connection = self.connection(doing).await?;
        let entries = table::history(&mut connection, name, before, limit).await;
        let entries = entries.map_err(|error| StoreError::new(doing, error))?;
        self.connection = Some(connection);
        Ok(entries)
    }

    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError> {
        let doing = "pruning the history of leases";
        let mut connection = self.connection(doing).await?;
        let oldest = wall_clock().as_micros().saturating_sub(table::micros(older_than));
        let pruned = table::prune(&mut connection, oldest).await;
        let pruned = pruned.map_err(|error| StoreError::new(doing, error))?;
        self.connection = Some(connection);
        Ok(pruned)
    }

    fn disconnect(&mut self) {
        self.connection = None;
    }
}
