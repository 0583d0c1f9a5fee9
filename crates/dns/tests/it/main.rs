//! Looks at names against a real server on a socket, and judgements of things never seen.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "in tests a panic is the report")]

mod http;
mod judge;
mod look;
mod noise;
mod server;
mod subject;
