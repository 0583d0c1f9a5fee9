//! The gateways seen from outside: processes killed at their points, requests and handshakes gone wrong.

#![expect(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod client;
mod listener;
mod peer;
mod point;
