//! Where leases are remembered. A store owns its connection; the elector owns the store and makes one call at a time.
//!
//! A new store implements [`Store`] and runs the suite in `conformance` against itself. What each operation must do is
//! written down, executable, in [`crate::rules`].

mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::time::Duration;

use async_trait::async_trait;

pub use self::memory::MemoryStore;
use crate::error::StoreError;
use crate::identity::{Name, Term};
use crate::request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed};
use crate::row::{Entry, Row};

/// What one row looked like: the row, and whether its owner's beacon is gone.
pub type Look = (Option<Row>, bool);

/// A place where leases are remembered.
///
/// An error means *unknown*: the request may have acted. A call that is dropped before it ends is given up: the store must
/// then make sure that it cannot act after `not_after`, by closing the connection and by checking that time where it acts.
#[async_trait]
pub trait Store: Send + 'static {
    /// Reads rows without a lock, in the order asked.
    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError>;

    /// Acquires a lease, in one atomic step.
    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError>;

    /// Renews leases, in the order asked. It must succeed while guards are open.
    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError>;

    /// Releases a lease and wakes who waits for it: true if it was the asker's until now. The row and its term stay.
    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError>;

    /// Asks the owner to step down, and wakes it: true if that was written.
    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError>;

    /// Takes a lease away, raises its term and wakes who waits: the new term, none if there is no such lease.
    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError>;

    /// All leases after this name, by name, this many at most.
    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError>;

    /// The changes of owner of a lease, newest first, this many at most, before this entry.
    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Forgets changes of owner older than this, a bounded number at a time: how many.
    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError>;

    /// Closes the connection; the next call opens another.
    fn disconnect(&mut self);

    /// Something that tells when a lease may have changed; none: followers poll.
    fn listener(&self) -> Option<Box<dyn Listener>> {
        None
    }

    /// The beacon of whoever uses this store: once lit, [`Acquire::beacon`] is kept with what this store acquires. None: this
    /// store has no beacons.
    fn beacon(&self) -> Option<Box<dyn Beacon>> {
        None
    }
}

/// A session of its own whose end counts as its process's death. One at a time; dropping it ends the session.
#[async_trait]
pub trait Beacon: Send + 'static {
    /// Opens a session unlike any before.
    async fn light(&mut self) -> Result<(), StoreError>;

    /// Waits until the session has ended: why. Dropping the wait changes nothing.
    async fn ended(&mut self) -> StoreError;

    /// Asks the server whether the session is still there. An error ends it.
    async fn check(&mut self) -> Result<(), StoreError>;
}

/// Tells when a lease may have changed. It may miss something whenever it is not connected, and only then.
#[async_trait]
pub trait Listener: Send + 'static {
    /// Connects; what happens from now on is told.
    async fn connect(&mut self) -> Result<(), StoreError>;

    /// The next lease that may have changed. An error ends the connection. Dropping the wait loses nothing.
    async fn next(&mut self) -> Result<Name, StoreError>;

    /// Asks the server whether the connection is still there, after a long silence: one that was dropped on the way is silent for ever.
    /// An error ends the connection.
    async fn check(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// This machine's wall clock: the store's clock of a store that lives on one machine.
#[expect(
    clippy::disallowed_methods,
    reason = "a store on one machine has that machine's clock, and every process there reads the same"
)]
pub(crate) fn wall_clock() -> crate::row::StoreTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
    crate::row::StoreTime::from_micros(micros)
}
