//! The crate from outside, on real PostgreSQL, Redis and SQLite.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod beacon;
mod conformance;
mod crash;
mod elector;
mod fence;
mod ground;
mod health;
mod linearizability;
mod process;
mod redis;
mod session;
