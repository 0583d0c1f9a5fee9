//! The doors of the process: where effects leave it and connections enter it.
//!
//! Every effect that another part of the world can see passes one of three gateways (store commit, ACME
//! request, file write) and names its crash [`point::Point`] there, so that the crash walk is complete by
//! construction. This crate knows no domain, no database and no ACME: only bytes, sockets and files.

pub mod client;
pub mod files;
pub mod listener;
pub mod point;
