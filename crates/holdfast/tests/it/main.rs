//! The program from outside: real processes of the built binary, real files, real sockets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in tests a panic is the report")]

mod config;
mod crash;
mod doctor;
mod domain;
mod key;
mod kit;
mod move_ca;
mod pebble;
mod replica;
mod restored;
mod server;
mod token;
mod up;
mod usage;
