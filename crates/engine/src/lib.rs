//! The loops that move domains: claim what is due, run one handler, commit one transition.
//!
//! A handler looks at the world or acts on it, is safe to run twice, and returns an outcome; it never
//! writes a state. Where a domain goes is `model`'s decision, and the store's commit is the only thing that moves
//! it. Any number of engines work on one store at once.

mod account;
mod alarm;
mod ca_record;
mod chores;
mod concerns;
mod config;
mod dispatch;
mod drive;
mod elsewhere;
mod handlers;
mod hold;
mod lanes;
mod looks;
mod pulse;
#[cfg(test)]
mod samples;
mod telemetry;
mod waits;

pub use chores::{Retention, chores};
pub use config::{Deployment, EngineConfig};
pub use dispatch::Engine;
pub use handlers::expectation;
pub use pulse::{Pulse, Stall};
