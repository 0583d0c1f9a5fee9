//! Replicas and the work that one of them does for all.

use holdfast_cluster::{ReplicaView as Replica, TaskView as Task};
use holdfast_model::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A replica as last heard of.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Replica)]
pub(crate) struct ReplicaView {
    /// The name people know it by.
    instance_id: String,
    /// Its process.
    #[schema(value_type = String, format = Uuid)]
    incarnation: String,
    /// How others reach it.
    url: String,
    /// What it does: `all`, `api` or `worker`.
    role: String,
    /// Its release.
    version: String,
    /// When its name was first heard of: the order of age.
    #[schema(value_type = String, format = DateTime)]
    registered_at: Timestamp,
    /// When its process started.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it last gave a sign of life.
    #[schema(value_type = String, format = DateTime)]
    last_heartbeat_at: Timestamp,
    /// Was that lately?
    healthy: bool,
    /// Is it about to end?
    draining: bool,
    /// Does it hold the leadership?
    leader: bool,
}

impl From<Replica> for ReplicaView {
    fn from(replica: Replica) -> Self {
        Self {
            instance_id: replica.instance_id,
            incarnation: replica.incarnation.to_string(),
            url: replica.url,
            role: replica.role,
            version: replica.version,
            registered_at: replica.registered_at,
            started_at: replica.started_at,
            last_heartbeat_at: replica.last_heartbeat_at,
            healthy: replica.healthy,
            draining: replica.draining,
            leader: replica.leader,
        }
    }
}

/// The last status of a task that one replica does for all.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Task)]
pub(crate) struct TaskView {
    /// What it does.
    name: String,
    /// The lease it runs under.
    lease: String,
    /// Who ran it last.
    instance_id: String,
    /// In which term of the lease.
    term: u64,
    /// How often it ran, ever.
    runs: u64,
    /// When it last ended.
    #[schema(value_type = String, format = DateTime)]
    last_run_at: Timestamp,
    /// How long that took.
    took_ms: u64,
    /// Did it do what it should?
    ok: bool,
    /// What came of it, in words.
    outcome: String,
    /// When it is to run next.
    #[schema(value_type = String, format = DateTime)]
    next_at: Timestamp,
}

impl From<Task> for TaskView {
    fn from(task: Task) -> Self {
        Self {
            name: task.name,
            lease: task.lease,
            instance_id: task.instance_id,
            term: task.term,
            runs: task.runs,
            last_run_at: task.last_run_at,
            took_ms: task.took_ms,
            ok: task.ok,
            outcome: task.outcome,
            next_at: task.next_at,
        }
    }
}
