//! Many replicas as one service: who is there, who holds which lease, and the work that is done once.
//!
//! It knows leases and the store's replicas; of domains, HTTP and configuration it knows nothing. Whoever has singleton
//! work hands it over as a task.

mod cluster;
mod error;
mod view;

pub use cluster::Cluster;
pub use error::{Error, Result};
pub use view::{LeaseEntry, LeaseView, Master, ReplicaView, TaskView};
