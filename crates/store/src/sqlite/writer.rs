//! The one connection that writes. Many ask to write at once, and each commit waits for the disk: so whoever is waiting joins
//! the transaction that is open, each as a savepoint of its own, and one commit is everybody's.
//!
//! A member that has finished lets the next one in and queues up again behind those who wait. The first to come round commits
//! for all who got in meanwhile; alone, it comes round at once. What a member gave up on is rolled back by who comes next;
//! what has been finished is committed whether its caller still waits or not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, Sqlite, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteQueryResult, SqliteRow},
};
use tokio::{
    sync::{Mutex, OwnedMutexGuard, watch},
    time::timeout,
};

use super::{held::Held, options};
use crate::{Error, Outage, Result, outage::Damage, pool::Statement};

/// Longer than this nobody waits for their turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longer than this a check does not wait.
const SOON: Duration = Duration::from_millis(2500);

/// Told to all members: nothing yet, or how the commit went.
type Verdict = Option<std::result::Result<(), Lost>>;

/// A commit that failed, for those who shared it.
#[derive(Clone)]
struct Lost {
    why: Arc<str>,
    outage: Option<Outage>,
}

impl Lost {
    fn of(error: &sqlx::Error) -> Self {
        Self { why: error.to_string().into(), outage: Outage::of(error) }
    }
}

/// Who may write.
pub(super) struct Writer {
    seat: Arc<Mutex<Seat>>,
    held: Arc<Held>,
    /// Does the seat wait for a lock that another process holds?
    locked_out: Arc<AtomicBool>,
}

struct Seat {
    locked_out: Arc<AtomicBool>,
    options: SqliteConnectOptions,
    damage: Arc<Damage>,
    connection: Option<SqliteConnection>,
    batch: Option<Batch>,
    /// Somebody began and did not finish.
    spoiled: bool,
    /// Why a member's statement failed, if the database was at fault: SQLite may have given up the whole transaction for it.
    cause: Option<Lost>,
    /// Nobody writes any more.
    closed: bool,
    held: Arc<Held>,
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
    /// No connection is made yet. Damage that a call finds is noted.
    pub(super) fn new(held: Arc<Held>, damage: Arc<Damage>) -> Self {
        let locked_out = Arc::new(AtomicBool::new(false));
        let seat = Seat {
            locked_out: locked_out.clone(),
            options: options(held.path()),
            damage,
            connection: None,
            batch: None,
            spoiled: false,
            cause: None,
            closed: false,
            held: held.clone(),
        };
        Self { seat: Arc::new(Mutex::new(seat)), held, locked_out }
    }

    /// Why nobody gets their turn.
    fn too_late(&self, at: &'static str) -> Error {
        match self.locked_out.load(Ordering::Relaxed) {
            true => self.held.locked(at),
            false => Error::Database { at, source: sqlx::Error::PoolTimedOut },
        }
    }

    /// Commits what is open and leaves the whole database in its one file. Nothing is written afterwards.
    pub(super) async fn close(&self) -> Result<()> {
        const AT: &str = "close the database";
        // A file that is not ours any more is left alone: closing removes the log at its path.
        self.held.check_and_save(AT).await?;
        let seat = timeout(PATIENCE, self.seat.lock()).await;
        seat.map_err(|_| self.too_late(AT))?.close(AT).await?;
        self.held.close(AT).await
    }

    /// Begins a part of its own.
    pub(super) async fn begin(&self, at: &'static str) -> Result<Tx> {
        self.held.check_and_save(at).await?;
        let home = self.seat.clone();
        // A task of its own: a caller that gives up half-way must not leave it unclear how far this went.
        let begun = tokio::spawn(async move {
            let Ok(mut seat) = timeout(PATIENCE, home.clone().lock_owned()).await else {
                return Ok(None);
            };
            seat.sit().await.map_err(|source| seat.refused(at, source))?;
            Ok(Some(Tx { seat, home, at }))
        });
        let crashed = |_| Error::Database { at, source: sqlx::Error::WorkerCrashed };
        begun.await.map_err(crashed)??.ok_or_else(|| self.too_late(at))
    }

    /// Writes one statement, or says soon why it cannot be written.
    pub(super) async fn execute_soon(
        &self,
        at: &'static str,
        statement: Statement<Sqlite>,
    ) -> Result<()> {
        match timeout(SOON, self.execute(at, statement)).await {
            Ok(done) => done.map(|_| ()),
            Err(_) => Err(self.too_late(at)),
        }
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
        let ran = connection.execute(statement).await.map(|_| ());
        ran.inspect_err(|error| self.damage.note(error))
    }

    /// Ready for a member: in a transaction, behind a savepoint.
    async fn sit(&mut self) -> sqlx::Result<()> {
        if self.closed {
            return Err(sqlx::Error::PoolClosed);
        }
        // Where that fails, another transaction begins.
        self.clean().await.ok();
        if self.batch.is_none() {
            // IMMEDIATE: a transaction that begins as a reader cannot wait for its turn to write.
            self.locked_out.store(true, Ordering::Relaxed);
            let begun = self.run("BEGIN IMMEDIATE").await;
            self.locked_out.store(false, Ordering::Relaxed);
            if let Err(error) = begun {
                self.connection = None;
                return Err(error);
            }
            self.batch = Some(Batch { members: 0, verdict: watch::Sender::new(None) });
        }
        self.spoiled = true;
        self.run("SAVEPOINT member").await
    }

    fn refused(&self, at: &'static str, source: sqlx::Error) -> Error {
        match Outage::of(&source) {
            Some(Outage::Locked) => self.held.locked(at),
            _ => Error::Database { at, source },
        }
    }

    /// Undoes what somebody left unfinished, or fails with why the transaction is lost.
    async fn clean(&mut self) -> Result<(), Lost> {
        if std::mem::take(&mut self.spoiled)
            && let Err(error) = self.run("ROLLBACK TO member; RELEASE member").await
        {
            return Err(self.fail(&error));
        }
        self.cause = None;
        Ok(())
    }

    /// The transaction is lost, for all of its members; so is the connection, whose state is anybody's guess. What a member met
    /// before says more of why than that its savepoint is gone.
    fn fail(&mut self, error: &sqlx::Error) -> Lost {
        let lost = self.cause.take().unwrap_or_else(|| Lost::of(error));
        self.connection = None;
        self.lose(lost.clone());
        lost
    }

    fn lose(&mut self, lost: Lost) {
        self.spoiled = false;
        self.cause = None;
        if let Some(batch) = self.batch.take() {
            batch.verdict.send_replace(Some(Err(lost)));
        }
    }

    /// Commits for all members, unless the file is no longer where it would be looked for after a restart.
    async fn commit(&mut self, at: &'static str) -> Result<()> {
        if let Err(lost) = self.clean().await {
            return said(at, Some(Err(lost)));
        }
        if let Err(outage) = self.held.check() {
            // The connection is kept: closing it could remove the log of the file that is there now.
            self.run("ROLLBACK").await.ok();
            self.lose(Lost { why: outage.to_string().into(), outage: Some(outage) });
            return Err(Error::Unusable { at, outage });
        }
        if let Err(error) = self.run("COMMIT").await {
            self.fail(&error);
            return Err(Error::Database { at, source: error });
        }
        if let Some(batch) = self.batch.take() {
            batch.verdict.send_replace(Some(Ok(())));
        }
        Ok(())
    }

    async fn close(&mut self, at: &'static str) -> Result<()> {
        if self.batch.is_some() {
            self.commit(at).await?;
        }
        self.closed = true;
        match self.connection.take() {
            Some(open) => open.close().await.map_err(|source| Error::Database { at, source }),
            None => Ok(()),
        }
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
        let connection = self.connection()?;
        #[cfg(test)]
        crate::plans::measure(at, connection).await;
        let result = connection.fetch_all(statement).await;
        result.map_err(|source| self.failed(at, source))
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
        let connection = self.connection()?;
        #[cfg(test)]
        crate::plans::measure(at, connection).await;
        let result = connection.execute(statement).await;
        result.map_err(|source| self.failed(at, source))
    }

    fn failed(&mut self, at: &'static str, source: sqlx::Error) -> Error {
        self.seat.damage.note(&source);
        if Outage::of(&source).is_some() {
            self.seat.cause.get_or_insert_with(|| Lost::of(&source));
        }
        Error::Database { at, source }
    }

    /// Makes it true, and durable, together with whatever else is being written.
    pub(super) async fn commit(self) -> Result<()> {
        let at = self.at;
        let committed = tokio::spawn(self.join_in()).await;
        committed.map_err(|_| Error::Database { at, source: sqlx::Error::WorkerCrashed })?
    }

    async fn join_in(mut self) -> Result<()> {
        let at = self.at;
        self.seat.spoiled = false;
        if let Err(error) = self.seat.run("RELEASE member").await {
            return said(at, Some(Err(self.seat.fail(&error))));
        }
        let Some(batch) = &mut self.seat.batch else { return said(at, None) };
        batch.members += 1;
        let mut verdict = batch.verdict.subscribe();
        // Whoever waits joins in before we come round again.
        drop(self.seat);
        let mut seat = tokio::select! {
            biased;
            told = told(&mut verdict) => return said(at, told),
            seat = self.home.lock_owned() => seat,
        };
        let known = verdict.borrow().clone();
        match known {
            Some(verdict) => said(at, Some(verdict)),
            None => seat.commit(at).await,
        }
    }

    /// Gives it up.
    pub(super) async fn abandon(mut self) -> Result<()> {
        // Where that fails, it is given up all the same.
        self.seat.clean().await.ok();
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

async fn told(verdict: &mut watch::Receiver<Verdict>) -> Verdict {
    verdict.wait_for(Option::is_some).await.ok().and_then(|told| told.clone())
}

/// What a shared commit came to, for one member.
fn said(at: &'static str, verdict: Verdict) -> Result<()> {
    let failed = |source| Err(Error::Database { at, source });
    match verdict {
        Some(Ok(())) => Ok(()),
        Some(Err(Lost { outage: Some(outage), .. })) => Err(Error::Unusable { at, outage }),
        Some(Err(Lost { why, outage: None })) => {
            failed(sqlx::Error::Protocol(format!("a commit shared with others failed: {why}")))
        }
        None => failed(sqlx::Error::PoolClosed),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::Scratch;
    use tokio::task::yield_now;

    use super::*;

    const SMALL: &str = "INSERT INTO letter VALUES ('x')";
    const LARGE: &str = "INSERT INTO letter VALUES (hex(zeroblob(500000)))";

    /// A file that may grow by a few pages only, as on a disk that is nearly full.
    async fn narrow(scratch: &Scratch) -> Arc<Writer> {
        let file = scratch.path().join("holdfast.db");
        let writer = Writer::new(Held::take(&file).await.unwrap(), Arc::default());
        writer.execute("test", sqlx::query("CREATE TABLE letter (text TEXT)")).await.unwrap();
        writer.rows("test", sqlx::query("PRAGMA max_page_count = 20")).await.unwrap();
        Arc::new(writer)
    }

    /// SQLite gives up the whole transaction for want of room, also the part of a member that had finished.
    #[tokio::test]
    async fn who_shares_a_transaction_that_finds_no_room_is_told_so() {
        let scratch = Scratch::new().unwrap();
        let writer = narrow(&scratch).await;
        let mut one = writer.begin("one").await.unwrap();
        one.execute(sqlx::query(SMALL)).await.unwrap();
        let beside = writer.clone();
        let other = tokio::spawn(async move {
            let mut two = beside.begin("two").await?;
            two.execute(sqlx::query(LARGE)).await
        });
        // Until the other one waits for its turn.
        for _ in 0..100 {
            yield_now().await;
        }
        let told = [one.commit().await.err(), other.await.unwrap().err()];
        for error in told {
            assert_eq!(error.as_ref().and_then(Error::outage), Some(Outage::DiskFull), "{error:?}");
        }
        writer.execute("three", sqlx::query(SMALL)).await.unwrap();
    }

    /// A member that commits although its statement failed is told why it could not.
    #[tokio::test]
    async fn who_commits_what_was_given_up_is_told_why() {
        let scratch = Scratch::new().unwrap();
        let writer = narrow(&scratch).await;
        let mut one = writer.begin("one").await.unwrap();
        one.execute(sqlx::query(LARGE)).await.unwrap_err();
        let told = one.commit().await.unwrap_err();
        assert_eq!(told.outage(), Some(Outage::DiskFull), "{told:?}");
    }
}
