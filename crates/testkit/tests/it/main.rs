//! The test kit itself: each part starts, does what it is for, and is gone afterwards.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "in tests a panic is the report")]

mod challtestsrv;
mod eventually;
mod faketime;
mod lying_ca;
mod orphan;
mod pebble;
mod port;
mod postgres;
mod process;
mod proxy;
mod redis;
mod standby;
