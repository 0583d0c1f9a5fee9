//! One conformance suite for both databases: a module per noun, each scenario run on a real PostgreSQL and on SQLite. What only
//! one of them can do (many replicas, a lock file) is tested in `postgres` and `sqlite`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is the report"
)]

#[macro_use]
mod kit;
#[macro_use]
mod raw;

mod account;
mod add;
mod alert;
mod backup;
mod budget;
mod ca_failure;
mod ca_wait;
mod certificate;
mod child;
mod claim;
mod clock;
mod complaint;
mod count;
mod departure;
mod difference;
mod domain;
mod edge;
mod event;
mod event_lag;
mod failover;
mod foreign;
mod halt;
mod heartbeat;
mod key;
mod lane;
mod list;
mod maintenance;
mod migration;
mod order;
mod outage;
mod postgres;
mod queue;
mod removal;
mod replica;
mod report;
mod retention;
mod sqlite;
mod sqlite_files;
mod stranger;
mod task;
mod token;
mod vital;
mod wake;
mod want;
mod webhook;
mod wire;
mod work;
