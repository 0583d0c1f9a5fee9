//! Sessions with PostgreSQL: with whichever host of a URL takes writes, and with settings that are in force.
//!
//! After a failover an address may lead to a standby, or to a server that has been made read-only. A session there answers reads and
//! refuses every write, for as long as it lives. So a session is checked when it is opened, ends when it says that it cannot
//! write ([`ends_session`]), and does not live for ever ([`Life`]).
//!
//! Settings are made by a statement, not by startup options, which poolers drop or refuse. A pooler in transaction or statement
//! mode gives each transaction to another server process: settings, advisory locks, `LISTEN` and prepared statements are lost. It is
//! found by two sessions that meet the same server process, and refused.

mod check;
mod error;
mod hosts;
mod life;
mod pooler;
mod url;

pub use self::check::{Session, ask_for_writes};
pub use self::error::{Fault, Unreachable, ends_session};
pub use self::hosts::Hosts;
pub use self::life::Life;
