//! The server from outside: requests in, answers out, on the real SQLite store.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod alert;
mod bad_input;
mod batch;
mod bundle;
mod challenge;
mod claim;
mod document;
mod domain;
mod edge;
mod event;
mod explain;
mod fuzz;
mod health;
mod key;
mod kit;
mod removal;
mod renewal;
mod schema;
mod scope;
mod serve;
mod token;
mod work;
