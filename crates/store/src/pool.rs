//! Connections, kept and lent out. It knows no SQL but how a transaction begins and ends.
//!
//! sqlx's own pool asks the database after every use whether the connection still works, which doubles the round trips. Here
//! a connection goes back only after a statement, or a whole transaction, that was seen to its end; in every other
//! case (an error of the wire, a caller that gave up half-way) it is dropped, and the database rolls back.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sqlx::{ConnectOptions as _, Connection, Database, Executor, IntoArguments, query::Query};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::{Error, Fence, Result};

/// A statement with its arguments.
pub(crate) type Statement<DB> = Query<'static, DB, <DB as Database>::Arguments>;
/// A statement that gives a row only while the lease of a fence is held, and keeps it so until the commit.
type Guard<DB> = fn(&Fence) -> Statement<DB>;
type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// Longer than this nobody waits for a connection, nor for a new one to be made.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than this nobody waits for a statement. The database ends it earlier; this is for one that is out of reach, and of
/// which the kernel would keep hoping to hear for a quarter of an hour.
const STATEMENT: Duration = Duration::from_secs(17);

/// Up to so many connections to one database.
pub(crate) struct Pool<DB: Database> {
    options: Options<DB>,
    begin: &'static str,
    /// How a transaction is held to the fence it runs under, where the caller's work has one.
    guard: Option<Guard<DB>>,
    room: Semaphore,
    idle: Mutex<Vec<DB::Connection>>,
}

/// A connection on loan; it goes back only if told so.
struct Lent<'p, DB: Database> {
    pool: &'p Pool<DB>,
    connection: DB::Connection,
    _room: SemaphorePermit<'p>,
}

/// A transaction; dropped before its commit, it never was.
pub(crate) struct Transaction<'p, DB: Database> {
    lent: Lent<'p, DB>,
    at: &'static str,
    limit: Duration,
}

/// Waits for an answer, but not for ever.
async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    let silent = || std::io::Error::new(std::io::ErrorKind::TimedOut, "the database is silent");
    timeout(limit, answer).await.unwrap_or_else(|_| Err(sqlx::Error::Io(silent())))
}

impl<DB> Pool<DB>
where
    DB: Database,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    /// No connection is made yet. `begin` is how a transaction begins.
    pub(crate) fn new(options: Options<DB>, size: u32, begin: &'static str) -> Self {
        let size = usize::try_from(size.max(1)).unwrap_or(1);
        Self { options, begin, guard: None, room: Semaphore::new(size), idle: Mutex::default() }
    }

    /// Work under a fence is held to it.
    pub(crate) fn guarded(mut self, guard: Guard<DB>) -> Self {
        self.guard = Some(guard);
        self
    }

    fn fence(&self) -> Option<(Fence, Guard<DB>)> {
        self.guard.and_then(|guard| Some((Fence::ambient()?, guard)))
    }

    /// Runs one statement by itself; `at` names the call in an error.
    pub(crate) async fn rows(
        &self,
        at: &'static str,
        statement: Statement<DB>,
    ) -> Result<Vec<DB::Row>> {
        if self.fence().is_some() {
            let mut transaction = self.begin(at).await?;
            let rows = transaction.rows(statement).await?;
            transaction.commit().await?;
            return Ok(rows);
        }
        let mut lent = self.lend(at).await?;
        let result = within(STATEMENT, lent.connection.fetch_all(statement)).await;
        lent.settle(at, result)
    }

    /// Runs one statement that gives at most one row.
    pub(crate) async fn row(
        &self,
        at: &'static str,
        statement: Statement<DB>,
    ) -> Result<Option<DB::Row>> {
        Ok(self.rows(at, statement).await?.into_iter().next())
    }

    /// Runs one statement that gives exactly one row.
    pub(crate) async fn one(&self, at: &'static str, statement: Statement<DB>) -> Result<DB::Row> {
        let row = self.row(at, statement).await?;
        row.ok_or(Error::Database { at, source: sqlx::Error::RowNotFound })
    }

    /// Runs one statement for its effect.
    pub(crate) async fn execute(
        &self,
        at: &'static str,
        statement: Statement<DB>,
    ) -> Result<DB::QueryResult> {
        if self.fence().is_some() {
            let mut transaction = self.begin(at).await?;
            let done = transaction.execute(statement).await?;
            transaction.commit().await?;
            return Ok(done);
        }
        let mut lent = self.lend(at).await?;
        let result = within(STATEMENT, lent.connection.execute(statement)).await;
        lent.settle(at, result)
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self, at: &'static str) -> Result<Transaction<'_, DB>> {
        let begun = match self.try_begin(at).await {
            // Nothing was done yet: on a wire that was broken before we came, beginning again is harmless.
            Err(Error::Database { source: sqlx::Error::Io(_), .. }) => self.try_begin(at).await,
            begun => begun,
        }?;
        match self.fence() {
            Some((fence, guard)) => begun.under(&fence, guard).await,
            None => Ok(begun),
        }
    }

    async fn try_begin(&self, at: &'static str) -> Result<Transaction<'_, DB>> {
        let mut lent = self.lend(at).await?;
        match within(STATEMENT, lent.connection.execute(self.begin)).await {
            Ok(_) => Ok(Transaction { lent, at, limit: STATEMENT }),
            Err(source) => Err(lent.broken(at, source)),
        }
    }

    async fn lend(&self, at: &'static str) -> Result<Lent<'_, DB>> {
        let failed = |source| Error::Database { at, source };
        let room = timeout(PATIENCE, self.room.acquire()).await;
        let room = room
            .map_err(|_| failed(sqlx::Error::PoolTimedOut))?
            .map_err(|_| failed(sqlx::Error::PoolClosed))?;
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => timeout(PATIENCE, self.options.connect())
                .await
                .map_err(|_| failed(sqlx::Error::PoolTimedOut))?
                .map_err(failed)?,
        };
        Ok(Lent { pool: self, connection, _room: room })
    }
}

impl<DB: Database> Pool<DB> {
    fn idle(&self) -> MutexGuard<'_, Vec<DB::Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<DB: Database> Lent<'_, DB> {
    fn give_back(self) {
        self.pool.idle().push(self.connection);
    }

    /// After a statement by itself: the database's refusal leaves the connection as good as before.
    fn settle<T>(self, at: &'static str, result: sqlx::Result<T>) -> Result<T> {
        match result {
            Ok(value) => {
                self.give_back();
                Ok(value)
            }
            Err(source @ sqlx::Error::Database(_)) if !is_farewell(&source) => {
                self.give_back();
                Err(Error::Database { at, source })
            }
            Err(source) => Err(self.broken(at, source)),
        }
    }

    /// The wire broke, and with it most likely every other one: who asks next gets a new connection, not an error.
    fn broken(&self, at: &'static str, source: sqlx::Error) -> Error {
        let refused = matches!(source, sqlx::Error::Database(_)) && !is_farewell(&source);
        if !refused {
            self.pool.idle().clear();
        }
        Error::Database { at, source }
    }
}

/// Does the server say that it ends this session? PostgreSQL's class 57P; SQLite has no such thing.
fn is_farewell(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code.starts_with("57P"))
}

impl<DB> Transaction<'_, DB>
where
    DB: Database,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    /// From here on it commits only while the lease of this fence is held.
    pub(crate) async fn under(mut self, fence: &Fence, guard: Guard<DB>) -> Result<Self> {
        if self.row(guard(fence)).await?.is_some() {
            return Ok(self);
        }
        self.abandon().await?;
        Err(fence.refusal())
    }

    /// For what may take long: nobody waits for it but who asked.
    pub(crate) fn unhurried(mut self) -> Self {
        self.limit = 100 * STATEMENT;
        self
    }

    /// Runs a statement in it.
    pub(crate) async fn rows(&mut self, statement: Statement<DB>) -> Result<Vec<DB::Row>> {
        let result = within(self.limit, self.lent.connection.fetch_all(statement)).await;
        result.map_err(|source| self.lent.broken(self.at, source))
    }

    /// Runs a statement in it that gives at most one row.
    pub(crate) async fn row(&mut self, statement: Statement<DB>) -> Result<Option<DB::Row>> {
        Ok(self.rows(statement).await?.into_iter().next())
    }

    /// Runs a statement in it that gives exactly one row.
    pub(crate) async fn one(&mut self, statement: Statement<DB>) -> Result<DB::Row> {
        let row = self.row(statement).await?;
        row.ok_or(Error::Database { at: self.at, source: sqlx::Error::RowNotFound })
    }

    /// Runs a statement in it for its effect.
    pub(crate) async fn execute(&mut self, statement: Statement<DB>) -> Result<DB::QueryResult> {
        let result = within(self.limit, self.lent.connection.execute(statement)).await;
        result.map_err(|source| self.lent.broken(self.at, source))
    }

    /// Makes it true.
    pub(crate) async fn commit(self) -> Result<()> {
        self.end("COMMIT").await
    }

    /// Gives it up, and the connection back; dropping it would cost the connection.
    pub(crate) async fn abandon(self) -> Result<()> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, how: &'static str) -> Result<()> {
        match within(self.limit, self.lent.connection.execute(how)).await {
            Ok(_) => {
                self.lent.give_back();
                Ok(())
            }
            Err(source) => Err(self.lent.broken(self.at, source)),
        }
    }
}
