//! The program from outside: real processes of the built binary, real files, real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "in tests a panic is the report, and they read the environment of `./dev soak`"
)]

mod agent;
mod backup;
mod ca;
mod caddy;
mod cluster;
mod config;
mod crash;
mod disk;
mod doctor;
mod domain;
mod edge;
mod edges;
mod fleet;
mod haproxy;
mod import;
mod key;
mod kit;
mod move_ca;
mod nginx;
mod pebble;
mod replica;
mod restored;
mod rollback;
mod server;
mod token;
mod up;
mod usage;
mod webhook;
