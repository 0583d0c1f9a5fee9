//! Fencing: whatever must not happen after a lease is lost is refused where it happens.
//!
//! Belief ends in time, but a task can outlive it: a paused process wakes up in the middle of a write. Three depths:
//! - in the same PostgreSQL, `postgres::guard` opens a transaction that no newer term can overtake;
//! - in another store, a `(term, incarnation)` predicate: [`HighWater`], or the registered terms of `postgres::register`;
//! - over HTTP, a [`header`] that only a holder of the cluster's key can make.

pub mod header;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod registered;
mod token;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;

#[cfg(all(feature = "postgres", feature = "redis"))]
pub use self::registered::Registered;
pub use self::token::{HighWater, Token};
