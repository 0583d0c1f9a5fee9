//! The crate from outside, on real PostgreSQL, Redis and SQLite.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conformance;
