//! The edge from outside: real sockets, real handshakes, real clients.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is the report"
)]

mod agent;
mod clients;
mod kit;
mod limits;
mod plain;
mod stored;
mod swap;
mod tls;
mod upstream;
