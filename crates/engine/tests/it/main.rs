//! The engine on real stores against the embedded CA, the zone and the built-in edge: the good path, every fault,
//! a crowd, removal, import, renewal.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

mod crowd;
mod damage;
mod directory;
mod edges;
mod fault;
mod handshake;
mod import;
mod kit;
mod lanes;
mod lie;
mod life;
mod outage;
mod pause;
mod removal;
mod renewal;
mod retry;
mod scope;
mod way;
