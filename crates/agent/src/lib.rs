//! The edge: desired certificates in, served fingerprints out.
//!
//! An agent sits beside each proxy and asks; the control plane never dials in. [`Feed`] is the way to the control plane,
//! [`Target`] the proxy, [`run_agent`] the loop between them. [`HaproxyTarget`] and [`FilesTarget`] are proxies of others;
//! [`BuiltinEdge`] is an edge of our own, in the same process, on the same path: it is a target like any other. Nothing here
//! decides what is to be served.

mod agent;
mod builtin;
mod chain;
mod checked;
mod error;
mod feed;
mod files;
mod fingerprint;
mod haproxy;
mod manifest;
mod observe;
mod probe;
mod status;
mod target;
mod turn;

pub use agent::{AgentConfig, run_agent};
pub use builtin::{BuiltinEdge, EdgeConfig, EdgeLimits, Source, StoreSource, Tallied};
pub use error::{Error, Result};
pub use feed::{Bundles, Feed, HttpFeed, HttpFeedConfig, Listing, News, StoreFeed};
pub use files::{FilesConfig, FilesTarget, Layout};
pub use fingerprint::fingerprint;
pub use haproxy::{HaproxyConfig, HaproxyTarget, RuntimeAddress};
pub use holdfast_store::Adopted;
pub use observe::Observing;
pub use probe::Prober;
pub use status::{Recorder, Status, serve_status};
pub use target::{Inventory, Target};
