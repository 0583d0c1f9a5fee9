//! The handle that everything else asks: am I the leader, who is, what do the leases say.

use std::sync::Arc;

use holdfast_lease::Health;

use crate::{Error, LeaseEntry, LeaseView, Master, ReplicaView, Result, TaskView};

/// The cluster as this replica sees it. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    instance: String,
}

impl Cluster {
    /// A replica that is alone: no leases, the leader of itself.
    #[must_use]
    pub fn alone(instance: &str) -> Self {
        Self(Arc::new(Inner { instance: instance.to_owned() }))
    }

    /// This replica, as people know it.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.0.instance
    }

    /// Does this replica hold the leadership now? The time is compared at every call.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.term().is_some()
    }

    /// The term of our own leadership, while we hold it.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        Some(1)
    }

    /// Who holds the leadership, as last seen; none when nobody does.
    #[must_use]
    pub fn master(&self) -> Option<Master> {
        let instance_id = self.0.instance.clone();
        Some(Master { instance_id, url: String::new(), term: 1 })
    }

    /// How the leases are doing.
    #[must_use]
    pub fn health(&self) -> Health {
        Health::Healthy
    }

    /// All leases, by name.
    ///
    /// # Errors
    /// When they cannot be asked.
    pub async fn leases(&self) -> Result<Vec<LeaseView>> {
        Ok(Vec::new())
    }

    /// The changes of owner of a lease, newest first, before this entry.
    ///
    /// # Errors
    /// When there is no such lease, or it cannot be asked.
    pub async fn lease_history(
        &self,
        name: &str,
        _before: Option<i64>,
        _limit: u32,
    ) -> Result<Vec<LeaseEntry>> {
        Err(Error::UnknownLease(name.to_owned()))
    }

    /// Takes a lease away from whoever holds it; its term rises. Gives the new term.
    ///
    /// # Errors
    /// When there is no such lease, or it cannot be asked.
    pub async fn release(&self, name: &str, _actor: &str) -> Result<u64> {
        Err(Error::UnknownLease(name.to_owned()))
    }

    /// Asks the holder of a lease to step down, for this replica or for any.
    ///
    /// # Errors
    /// When nobody holds it, when there is no such replica, or it cannot be asked.
    pub async fn step_down(&self, name: &str, _to: Option<&str>) -> Result<()> {
        Err(Error::UnknownLease(name.to_owned()))
    }

    /// All replicas, oldest first.
    ///
    /// # Errors
    /// When they cannot be asked.
    pub async fn replicas(&self) -> Result<Vec<ReplicaView>> {
        Ok(Vec::new())
    }

    /// The last status of each singleton task.
    ///
    /// # Errors
    /// When they cannot be asked.
    pub async fn tasks(&self) -> Result<Vec<TaskView>> {
        Ok(Vec::new())
    }
}
