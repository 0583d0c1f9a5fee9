//! Many replicas as one service: who is there, who holds which lease, and the work that is done once.
//!
//! It knows leases and the store's replicas; of domains, HTTP and configuration it knows nothing. Whoever has singleton
//! work hands it over as a [`Task`].

mod backend;
mod bootstrap;
mod checkup;
mod clock;
mod cluster;
mod driver;
mod error;
mod handover;
mod master;
mod member;
mod office;
mod roll;
mod settings;
mod task;
mod tidings;
mod timed;
mod view;

pub use holdfast_lease::{Health, Options, store::redis::RedisAddress};

pub use backend::Backend;
pub use bootstrap::bootstrap;
pub use checkup::{RedisFacts, redis_facts};
pub use clock::{Asked, StoreClock};
pub use cluster::Cluster;
pub use error::{Error, Result};
pub use settings::{Role, Settings};
pub use task::Task;
pub use view::{LeaseEntry, LeaseView, Master, ReplicaView, TaskView};

/// The lease of the first start: master key, first admin token.
pub const BOOTSTRAP: &str = "bootstrap-coordinator";
/// The lease of whoever registers the account at the CA, or changes its contact or key.
pub const ACME_WRITER: &str = "acme-writer";
/// The lease of the safety net under renewals.
pub const RENEWAL_SWEEP: &str = "renewal-sweep";
/// The lease of clean-up.
pub const MAINTENANCE: &str = "maintenance";
/// The lease of whoever evaluates alerts.
pub const ALERTS: &str = "alerts";

/// The leases of work; the leadership may bear none of these names.
pub const WORK_LEASES: [&str; 5] = [BOOTSTRAP, ACME_WRITER, RENEWAL_SWEEP, MAINTENANCE, ALERTS];
