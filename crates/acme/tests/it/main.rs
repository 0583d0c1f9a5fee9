//! The conversation with a CA, from outside: against Pebble, against the embedded CA with its faults, and against
//! answers that no CA should give.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in tests a panic is the report")]

mod account;
mod answers;
mod certificate;
mod faults;
mod faulty_store;
mod key_change;
mod kit;
mod moved;
mod nonsense;
mod paper;
mod renewal;
mod request;
mod revocation;
mod scripted;
mod store;
mod thrift;
mod trust;
mod urls;
mod walk;
