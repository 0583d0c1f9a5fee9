//! What is told of leases, replicas and tasks.

use holdfast_model::Timestamp;
use holdfast_store::{Replica, TaskStatus};
use uuid::Uuid;

/// Who holds the leadership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// The replica.
    pub instance_id: String,
    /// How other replicas reach it.
    pub url: String,
    /// The term it holds the leadership in.
    pub term: u64,
}

/// A lease, as last written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// What is coordinated.
    pub name: String,
    /// Who holds it; none when it is free.
    pub holder: Option<String>,
    /// The process that holds it.
    pub incarnation: Option<Uuid>,
    /// The fencing term of the holder, or of the last one.
    pub term: u64,
    /// When this holder came, or the last one went.
    pub since: Timestamp,
    /// Until when it is held without renewal; past, it is free.
    pub expires_at: Timestamp,
    /// Is it held now, by the store's clock?
    pub held: bool,
    /// How the holder ranks among candidates.
    pub priority: i16,
    /// In whose favour the holder was asked to step down, or for whom it is reserved.
    pub successor: Option<String>,
}

/// One change of owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseEntry {
    /// Rises with every change.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// Why, as a stable word.
    pub change: &'static str,
    /// The term from then on.
    pub term: u64,
    /// Who held it before.
    pub from: Option<String>,
    /// Who holds it from then on.
    pub to: Option<String>,
    /// Who forced it; otherwise none.
    pub note: Option<String>,
}

/// A replica, as last heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaView {
    /// The name people know it by.
    pub instance_id: String,
    /// The process.
    pub incarnation: Uuid,
    /// How other replicas reach it.
    pub url: String,
    /// What it does: `all`, `api` or `worker`.
    pub role: String,
    /// Its release.
    pub version: String,
    /// When it was first heard of: the order of age.
    pub registered_at: Timestamp,
    /// When its process started.
    pub started_at: Timestamp,
    /// When it last gave a sign of life.
    pub last_heartbeat_at: Timestamp,
    /// Was that lately?
    pub healthy: bool,
    /// Is it about to end?
    pub draining: bool,
    /// Does it hold the leadership?
    pub leader: bool,
}

/// The last status of one singleton task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    /// What it does.
    pub name: String,
    /// The lease it runs under.
    pub lease: String,
    /// Who ran it last.
    pub instance_id: String,
    /// In which term.
    pub term: u64,
    /// How often it ran, ever.
    pub runs: u64,
    /// When it last ended.
    pub last_run_at: Timestamp,
    /// How long that took.
    pub took_ms: u64,
    /// Whether it did what it should.
    pub ok: bool,
    /// What came of it, in words.
    pub outcome: String,
    /// When it is to run next.
    pub next_at: Timestamp,
}

impl ReplicaView {
    pub(crate) fn new(leader: bool, replica: Replica) -> Self {
        Self {
            instance_id: replica.instance,
            incarnation: replica.incarnation,
            url: replica.url,
            role: replica.role,
            version: replica.version,
            registered_at: replica.registered_at,
            started_at: replica.started_at,
            last_heartbeat_at: replica.last_heartbeat_at,
            healthy: replica.healthy,
            draining: replica.draining,
            leader: leader && replica.healthy,
        }
    }
}

impl From<TaskStatus> for TaskView {
    fn from(task: TaskStatus) -> Self {
        Self {
            name: task.name,
            lease: task.lease,
            instance_id: task.instance,
            term: u64::try_from(task.term).unwrap_or(0),
            runs: task.runs,
            last_run_at: task.ran_at,
            took_ms: u64::try_from(task.took.as_millis()).unwrap_or(u64::MAX),
            ok: task.ok,
            outcome: task.outcome,
            next_at: task.next_at,
        }
    }
}
