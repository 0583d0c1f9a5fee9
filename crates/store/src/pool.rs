//! Connections, kept and lent out. It knows no SQL but how a transaction begins and ends.
//!
//! sqlx's own pool asks the database after every use whether the connection still works, which doubles the round trips. Here
//! a connection goes back only after a statement, or a whole transaction, that was seen to its end; in every other
//! case (an error of the wire, a caller that gave up half-way) it is dropped, and the database rolls back.
//!
//! A connection that turns out to be broken takes all others of its time with it, idle or lent: they most likely lead to the same
//! server. And each ends some time after it was made, so that none stays for ever with a server that others have left.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use holdfast_lease::session::Life;
use sqlx::{
    Connection as _, Database, Executor, IntoArguments, error::DatabaseError, query::Query,
};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::{sleep, timeout},
};

use crate::{
    Error, Fence, Hindrance, Outage, Result, hindrance::Seen, outage::Damage, shortage::Shortage,
};

/// A statement with its arguments.
pub(crate) type Statement<DB> = Query<'static, DB, <DB as Database>::Arguments>;
/// A statement that gives a row only while the lease of a fence is held, and keeps it so until the commit.
type Guard<DB> = fn(&Fence) -> Statement<DB>;

/// Where connections come from.
#[async_trait]
pub(crate) trait Source<DB: Database>: Send + Sync {
    /// Makes a connection; `at` names the call in an error.
    async fn connect(&self, at: &'static str, shortage: &Shortage) -> Result<DB::Connection>;

    /// Is a connection of no more use after this error of the database?
    fn ends_connection(&self, error: &sqlx::Error) -> bool;

    /// The longest life of a connection.
    fn longest_life(&self) -> Duration;

    /// What keeps statements waiting, where the database can tell.
    async fn hindrance(&self) -> Result<Option<Hindrance>> {
        Ok(None)
    }

    /// Notes how much work the next statement is.
    #[cfg(test)]
    async fn measure(&self, _: &'static str, _: &mut DB::Connection) {}
}

/// Longer than this nobody waits for a connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// For how long it is told what statements failed of: one that goes on failing does so every ten seconds.
const TOLD: Duration = Duration::from_secs(30);
/// Who waits longer than this for a new connection also takes one that is given back, and a shortage is noted.
const SLOW: Duration = Duration::from_secs(1);
/// Longer than this nobody waits for a statement. The database ends it earlier; this is for one that is out of reach, and of
/// which the kernel would keep hoping to hear for a quarter of an hour.
pub(crate) const STATEMENT: Duration = Duration::from_secs(17);
/// Of a statement that takes longer than this it is asked what it waits for, and again after twice as long each time.
const LATE: Duration = Duration::from_secs(1);

/// Up to so many connections to one database.
pub(crate) struct Pool<DB: Database> {
    source: Box<dyn Source<DB>>,
    begin: &'static str,
    /// How a transaction is held to the fence it runs under, where the caller's work has one.
    guard: Option<Guard<DB>>,
    size: u32,
    room: Semaphore,
    damage: Arc<Damage>,
    idle: Mutex<Vec<Kept<DB>>>,
    given_back: Notify,
    /// Connections made under an earlier number are not used again.
    generation: AtomicU64,
    shortage: Shortage,
    hindrance: Seen,
    /// What the last statement failed of that waited too long.
    stopped: Seen,
    /// One asks for all.
    asking: tokio::sync::Mutex<()>,
}

/// A connection, and until when it is good.
struct Kept<DB: Database> {
    connection: DB::Connection,
    life: Life,
    generation: u64,
}

/// A connection on loan; it goes back only if told so.
struct Lent<'p, DB: Database> {
    pool: &'p Pool<DB>,
    kept: Kept<DB>,
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

/// Did a statement fail because its time was over?
fn is_late(error: &sqlx::Error) -> bool {
    const CANCELED: &str = "57014";
    let said = error.as_database_error();
    match (error, Outage::of(error)) {
        (sqlx::Error::Io(error), _) => error.kind() == std::io::ErrorKind::TimedOut,
        (_, Some(outage)) => outage == Outage::Locked,
        _ => said.and_then(DatabaseError::code).is_some_and(|code| code == CANCELED),
    }
}

impl<DB> Pool<DB>
where
    DB: Database,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    /// No connection is made yet. `begin` is how a transaction begins.
    pub(crate) fn new(source: impl Source<DB> + 'static, size: u32, begin: &'static str) -> Self {
        let size = size.max(1);
        Self {
            source: Box::new(source),
            begin,
            guard: None,
            size,
            room: Semaphore::new(usize::try_from(size).unwrap_or(1)),
            damage: Arc::default(),
            idle: Mutex::default(),
            given_back: Notify::new(),
            generation: AtomicU64::new(0),
            shortage: Shortage::default(),
            hindrance: Seen::default(),
            stopped: Seen::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Where damage is noted that any call finds.
    pub(crate) fn damage(&self) -> &Arc<Damage> {
        &self.damage
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
        #[cfg(test)]
        self.source.measure(at, &mut lent.kept.connection).await;
        let result = self.answered(STATEMENT, lent.kept.connection.fetch_all(statement)).await;
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
        let result = self.answered(STATEMENT, lent.kept.connection.execute(statement)).await;
        lent.settle(at, result)
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self, at: &'static str) -> Result<Transaction<'_, DB>> {
        let begun = match self.try_begin(at).await {
            // Nothing was done yet: on a wire that was broken before we came, beginning again is harmless.
            Err(Error::Database { source, .. }) if !matches!(source, sqlx::Error::PoolTimedOut) => {
                self.try_begin(at).await
            }
            begun => begun,
        }?;
        match self.fence() {
            Some((fence, guard)) => begun.under(&fence, guard).await,
            None => Ok(begun),
        }
    }

    async fn try_begin(&self, at: &'static str) -> Result<Transaction<'_, DB>> {
        let mut lent = self.lend(at).await?;
        match within(STATEMENT, lent.kept.connection.execute(self.begin)).await {
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
        let kept = match self.idle_one() {
            Some(kept) => kept,
            None => tokio::select! {
                made = self.make(at) => made?,
                kept = self.wait_for_another() => kept,
            },
        };
        Ok(Lent { pool: self, kept, _room: room })
    }

    /// Closes every connection, once those on loan are back; nobody gets one any more.
    pub(crate) async fn close(&self) {
        let all_back = timeout(PATIENCE, self.room.acquire_many(self.size)).await;
        self.room.close();
        drop(all_back);
        let idle = std::mem::take(&mut *self.idle());
        for kept in idle {
            kept.connection.close().await.ok();
        }
    }

    async fn make(&self, at: &'static str) -> Result<Kept<DB>> {
        let generation = self.generation.load(Ordering::Acquire);
        let connection = self.source.connect(at, &self.shortage).await?;
        Ok(Kept { connection, life: Life::begin(self.source.longest_life()), generation })
    }

    /// A connection that somebody gives back while a new one takes too long.
    async fn wait_for_another(&self) -> Kept<DB> {
        sleep(SLOW).await;
        self.shortage.note("a new session with the database takes longer than a second");
        loop {
            if let Some(kept) = self.idle_one() {
                return kept;
            }
            self.given_back.notified().await;
        }
    }
}

impl<DB: Database> Pool<DB> {
    fn idle(&self) -> MutexGuard<'_, Vec<Kept<DB>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle_one(&self) -> Option<Kept<DB>> {
        let mut idle = self.idle();
        idle.retain(|kept| self.is_good(kept));
        idle.pop()
    }

    fn is_good(&self, kept: &Kept<DB>) -> bool {
        kept.generation == self.generation.load(Ordering::Acquire) && !kept.life.is_over()
    }

    /// No connection of now is used again: idle ones are dropped at once, lent ones when they are given back.
    pub(crate) fn drop_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.idle().clear();
    }

    /// Waits for an answer as [`within`]; while it is late, it is asked now and then what it waits for.
    async fn answered<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = sqlx::Result<T>>,
    ) -> sqlx::Result<T> {
        let mut answer = pin!(within(limit, answer));
        let mut pause = LATE;
        loop {
            let look = async {
                sleep(pause).await;
                self.look_for_hindrance().await;
            };
            tokio::select! {
                answer = &mut answer => return answer,
                () = look => pause *= 2,
            }
        }
    }

    async fn look_for_hindrance(&self) {
        let Ok(_alone) = self.asking.try_lock() else { return };
        match self.source.hindrance().await {
            Ok(found) => self.hindrance.note(found),
            Err(error) => tracing::debug!(
                error = &error as &dyn std::error::Error,
                "what a statement waits for cannot be told"
            ),
        }
    }

    /// With what the statement waited for, if that is how it ended.
    fn failed(&self, at: &'static str, source: sqlx::Error) -> Error {
        match self.hindrance.lately().filter(|_| is_late(&source)) {
            Some(by) => {
                self.stopped.note(Some(by.clone()));
                Error::Hindered { at, by, source: Some(source) }
            }
            None => Error::Database { at, source },
        }
    }

    /// Why requests lately waited for a connection, or failed because of others, if they did.
    pub(crate) fn shortage(&self) -> Option<String> {
        let stopped = || Some(format!("requests fail: {}", self.stopped.within(TOLD)?));
        let waited = || Some(format!("requests wait for sessions: {}", self.shortage.lately()?));
        stopped().or_else(waited)
    }
}

impl<DB: Database> Lent<'_, DB> {
    fn give_back(self) {
        if self.pool.is_good(&self.kept) {
            self.pool.idle().push(self.kept);
            self.pool.given_back.notify_one();
        }
    }

    /// After a statement by itself: the database's refusal leaves the connection as good as before.
    fn settle<T>(self, at: &'static str, result: sqlx::Result<T>) -> Result<T> {
        match result {
            Ok(value) => {
                self.give_back();
                Ok(value)
            }
            Err(source) if self.pool.source.ends_connection(&source) => {
                Err(self.broken(at, source))
            }
            Err(source) => {
                self.pool.damage.note(&source);
                let error = self.pool.failed(at, source);
                self.give_back();
                Err(error)
            }
        }
    }

    /// The wire broke, and with it most likely every other one: who asks next gets a new connection, not an error.
    fn broken(&self, at: &'static str, source: sqlx::Error) -> Error {
        self.pool.damage.note(&source);
        let ends = self.pool.source.ends_connection(&source);
        let error = self.pool.failed(at, source);
        // A server that has told what its sessions wait for is not out of reach.
        if ends && !matches!(error, Error::Hindered { .. }) {
            self.pool.drop_all();
        }
        error
    }

    /// Who was in a hurry knows nothing of the others: this connection alone is lost.
    fn too_slow(&self, at: &'static str, source: sqlx::Error) -> Error {
        self.pool.failed(at, source)
    }
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

    /// For who waits for no longer than this for each of its statements.
    pub(crate) fn hurried(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn broken(&self, source: sqlx::Error) -> Error {
        match self.limit < STATEMENT && is_late(&source) {
            true => self.lent.too_slow(self.at, source),
            false => self.lent.broken(self.at, source),
        }
    }

    /// Runs a statement in it.
    pub(crate) async fn rows(&mut self, statement: Statement<DB>) -> Result<Vec<DB::Row>> {
        let answer = self.lent.kept.connection.fetch_all(statement);
        let result = self.lent.pool.answered(self.limit, answer).await;
        result.map_err(|source| self.broken(source))
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
        let answer = self.lent.kept.connection.execute(statement);
        let result = self.lent.pool.answered(self.limit, answer).await;
        result.map_err(|source| self.broken(source))
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
        let answer = self.lent.kept.connection.execute(how);
        match self.lent.pool.answered(self.limit, answer).await {
            Ok(_) => {
                self.lent.give_back();
                Ok(())
            }
            Err(source) => Err(self.broken(source)),
        }
    }
}
