//! The conversation with a CA, from outside: against Pebble, against the embedded CA with its faults, and against
//! answers that no CA should give.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in tests a panic is the report")]

mod certificate;
mod paper;
mod request;
