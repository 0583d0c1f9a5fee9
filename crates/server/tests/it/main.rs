//! The server from outside: requests in, answers out, on the real SQLite store.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod account;
mod adoption;
mod alert;
mod bad_input;
mod batch;
mod bundle;
mod certificate;
mod challenge;
mod claim;
mod cluster;
mod departure;
mod difference;
mod document;
mod domain;
mod edge;
mod event;
mod explain;
mod feed;
mod feed_guard;
mod fuzz;
mod guard;
mod health;
mod key;
mod kit;
mod metric;
mod outage;
mod removal;
mod renewal;
mod rollback;
mod schema;
mod scope;
mod serve;
mod token;
mod webhook;
mod work;
