//! The edge from outside: real sockets, real handshakes, real clients.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "in a test a panic is the report, and tests read the environment of `./dev soak`"
)]

mod adoption;
mod agent;
mod clients;
mod crash;
mod crowded;
mod edges;
mod faults;
mod files;
mod forwarding;
mod haproxy;
mod http;
mod kit;
mod limits;
mod ownership;
mod plain;
mod replacing;
mod safety;
mod stored;
mod swap;
mod tls;
mod transactions;
mod upstream;
mod watching;
