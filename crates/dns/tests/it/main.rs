//! Looks at names against a real server on a socket, and judgements of things never seen.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in tests a panic is the report")]

mod glance;
mod http;
mod judge;
mod lies;
mod look;
mod noise;
mod subject;
