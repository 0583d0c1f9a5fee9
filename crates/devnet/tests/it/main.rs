//! The development network as its users see it: over sockets, with real clients.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "in tests a panic is the report"
)]

mod account;
mod bare_loop;
mod caddy;
mod certbot;
mod certificate;
mod challenge;
mod child;
mod client;
mod control;
mod dns;
mod fault;
mod keys;
mod lego;
mod order;
mod renewal;
mod restart;
mod revocation;
mod signed;
mod strict;
mod web;
mod world;
