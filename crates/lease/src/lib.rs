//! Leases with fencing terms, and leader election, over PostgreSQL, Redis, SQLite or memory.

pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod event;
pub mod identity;
pub mod options;
pub mod protocol;
pub mod request;
pub mod row;
pub mod rules;
pub mod store;

pub use self::error::{Error, StoreError};
