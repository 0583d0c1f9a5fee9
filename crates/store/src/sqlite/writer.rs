//! The one connection that writes. Many ask to write at once, and each commit waits for the disk: so whoever is waiting joins
//! the transaction that is open, each as a savepoint of its own, and one commit is everybody's.
//!
//! A member that has finished lets the next one in and queues up again behind those who wait. The first to come round commits
//! for all who got in meanwhile; alone, it comes round at once. What a member gave up on is rolled back by who comes next;
//! what has been finished is committed whether its caller still waits or not.

use std::{path::Path, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions as _, Executor as _, Sqlite, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteQueryResult, SqliteRow},
};
use tokio::{
    sync::{Mutex, OwnedMutexGuard, watch},
    time::timeout,
};

use super::lock::FileLock;
use crate::{Error, Result, pool::Statement};

/// Longer than this nobody waits for their turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Told to all members: nothing yet, or how the commit went.
type Verdict = Option<std::result::Result<(), Arc<str>>>;

/// Who may write.
pub(super) struct Writer(Arc<Mutex<Seat>>);

struct Seat {
    options: SqliteConnectOptions,
    connection: Option<SqliteConnection>,
    batch: Option<Batch>,
    /// Somebody began and did not finish.
    spoiled: bool,
    // Given back last, when nothing writes any more.
    _lock: FileLock,
}

/// A transaction that is open, and who waits for its commit.
struct Batch {
    members: u32,
    verdict: watch::Sender<Verdict>,
}

/// One member's part of a transaction; dropped before its commit, it never was.
pub(super) struct Tx {
    seat: OwnedMutexGuard<Seat>,
    home: Arc<Mutex<Seat>>,
    at: &'static str,
}

impl Writer {
    /// Takes the file for this process; no connection is made yet.
    pub(super) fn new(file: &Path, options: SqliteConnectOptions) -> Result<Self> {
        let lock = FileLock::take(file)?;
        let seat = Seat { options, connection: None, batch: None, spoiled: false, _lock: lock };
        Ok(Self(Arc::new(Mutex::new(seat))))
    }

    /// Begins a part of its own.
    pub(super) async fn begin(&self, at: &'static str) -> Result<Tx> {
        let home = self.0.clone();
        // A task of its own: a caller that gives up half-way must not leave it unclear how far this went.
        let begun = tokio::spawn(async move {
            let mut seat = timeout(PATIENCE, home.clone().lock_owned())
                .await
                .map_err(|_| Error::Database { at, source: sqlx::Error::PoolTimedOut })?;
            seat.sit().await.map_err(|source| Error::Database { at, source })?;
            Ok(Tx { seat, home, at })
        });
        begun.await.map_err(|_| Error::Database { at, source: sqlx::Error::WorkerCrashed })?
    }

    /// Writes one statement.
    pub(super) async fn execute(
        &self,
        at: &'static str,
        statement: Statement<Sqlite>,
    ) -> Result<SqliteQueryResult> {
        let mut transaction = self.begin(at).await?;
        let done = transaction.execute(statement).await?;
        transaction.commit().await?;
        Ok(done)
    }

    /// Writes, or reads what is being written, by one statement that gives rows.
    pub(super) async fn rows(
        &self,
        at: &'static str,
        statement: Statement<Sqlite>,
    ) -> Result<Vec<SqliteRow>> {
        let mut transaction = self.begin(at).await?;
        let rows = transaction.rows(statement).await?;
        transaction.commit().await?;
        Ok(rows)
    }
}

impl Seat {
    async fn run(&mut self, statement: &'static str) -> sqlx::Result<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(self.options.connect().await?),
        };
        connection.execute(statement).await.map(|_| ())
    }

    /// Ready for a member: in a transaction, behind a savepoint.
    async fn sit(&mut self) -> sqlx::Result<()> {
        self.clean().await;
        if self.batch.is_none() {
            // IMMEDIATE: a transaction that begins as a reader cannot wait for its turn to write.
            if let Err(error) = self.run("BEGIN IMMEDIATE").await {
                self.connection = None;
                return Err(error);
            }
            self.batch = Some(Batch { members: 0, verdict: watch::Sender::new(None) });
        }
        self.spoiled = true;
        self.run("SAVEPOINT member").await
    }

    /// Undoes what somebody left unfinished.
    async fn clean(&mut self) {
        if !std::mem::take(&mut self.spoiled) {
            return;
        }
        if let Err(error) = self.run("ROLLBACK TO member; RELEASE member").await {
            self.fail(&error);
        }
    }

    /// The transaction is lost, for all of its members; so is the connection, whose state is anybody's guess.
    fn fail(&mut self, error: &sqlx::Error) {
        self.spoiled = false;
        self.connection = None;
        if let Some(batch) = self.batch.take() {
            batch.verdict.send_replace(Some(Err(error.to_string().into())));
        }
    }

    /// Commits for all members.
    async fn commit(&mut self) -> sqlx::Result<()> {
        self.clean().await;
        if let Err(error) = self.run("COMMIT").await {
            self.fail(&error);
            return Err(error);
        }
        if let Some(batch) = self.batch.take() {
            batch.verdict.send_replace(Some(Ok(())));
        }
        Ok(())
    }
}

impl Tx {
    fn connection(&mut self) -> Result<&mut SqliteConnection> {
        let at = self.at;
        let gone = Error::Database { at, source: sqlx::Error::PoolClosed };
        self.seat.connection.as_mut().ok_or(gone)
    }

    pub(super) async fn rows(&mut self, statement: Statement<Sqlite>) -> Result<Vec<SqliteRow>> {
        let at = self.at;
        let result = self.connection()?.fetch_all(statement).await;
        result.map_err(|source| Error::Database { at, source })
    }

    pub(super) async fn row(&mut self, statement: Statement<Sqlite>) -> Result<Option<SqliteRow>> {
        Ok(self.rows(statement).await?.into_iter().next())
    }

    pub(super) async fn one(&mut self, statement: Statement<Sqlite>) -> Result<SqliteRow> {
        let row = self.row(statement).await?;
        row.ok_or(Error::Database { at: self.at, source: sqlx::Error::RowNotFound })
    }

    pub(super) async fn execute(
        &mut self,
        statement: Statement<Sqlite>,
    ) -> Result<SqliteQueryResult> {
        let at = self.at;
        let result = self.connection()?.execute(statement).await;
        result.map_err(|source| Error::Database { at, source })
    }

    /// Makes it true, and durable, together with whatever else is being written.
    pub(super) async fn commit(self) -> Result<()> {
        let at = self.at;
        let committed = tokio::spawn(self.join_in()).await;
        let failed = |source| Error::Database { at, source };
        committed.map_err(|_| failed(sqlx::Error::WorkerCrashed))?.map_err(failed)
    }

    async fn join_in(mut self) -> sqlx::Result<()> {
        self.seat.spoiled = false;
        if let Err(error) = self.seat.run("RELEASE member").await {
            self.seat.fail(&error);
            return Err(error);
        }
        let Some(batch) = &mut self.seat.batch else { return Err(sqlx::Error::PoolClosed) };
        batch.members += 1;
        let mut verdict = batch.verdict.subscribe();
        // Whoever waits joins in before we come round again.
        drop(self.seat);
        let mut seat = tokio::select! {
            biased;
            told = told(&mut verdict) => return told,
            seat = self.home.lock_owned() => seat,
        };
        let known = verdict.borrow().clone();
        match known {
            Some(verdict) => said(verdict),
            None => seat.commit().await,
        }
    }

    /// Gives it up.
    pub(super) async fn abandon(mut self) -> Result<()> {
        self.seat.clean().await;
        // With nobody waiting for it there is nothing to commit.
        if self.seat.batch.as_ref().is_some_and(|batch| batch.members == 0) {
            self.seat.batch = None;
            if self.seat.run("ROLLBACK").await.is_err() {
                self.seat.connection = None;
            }
        }
        Ok(())
    }
}

async fn told(verdict: &mut watch::Receiver<Verdict>) -> sqlx::Result<()> {
    match verdict.wait_for(Option::is_some).await {
        Ok(told) => told.clone().map_or(Err(sqlx::Error::PoolClosed), said),
        Err(_) => Err(sqlx::Error::PoolClosed),
    }
}

fn said(verdict: std::result::Result<(), Arc<str>>) -> sqlx::Result<()> {
    verdict
        .map_err(|why| sqlx::Error::Protocol(format!("a commit shared with others failed: {why}")))
}
