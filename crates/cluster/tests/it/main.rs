//! Replicas as members of one cluster, on a real PostgreSQL and on SQLite.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod fence;
mod kit;
mod lease;
mod replica;
mod schema;
mod task;
