//! Singleton tasks: what became of each, for whoever wants to know, and when it is to run next, for whoever runs it next.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::Timestamp;

use crate::{Fence, Result};

/// A run, or some, that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRun {
    /// Which task.
    pub name: String,
    /// The lease it runs under.
    pub lease: String,
    /// Who ran it.
    pub instance: String,
    /// How many runs this tells of.
    pub runs: u64,
    /// How long the last one took.
    pub took: Duration,
    /// Did it do what it should?
    pub ok: bool,
    /// What came of it, in words.
    pub outcome: String,
    /// How long until the next.
    pub next_in: Duration,
}

/// The last status of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// Which task.
    pub name: String,
    /// The lease it runs under.
    pub lease: String,
    /// Who ran it last.
    pub instance: String,
    /// In which term.
    pub term: i64,
    /// How often it ran, ever.
    pub runs: u64,
    /// When it last ended.
    pub ran_at: Timestamp,
    /// How long that took.
    pub took: Duration,
    /// Did it do what it should?
    pub ok: bool,
    /// What came of it, in words.
    pub outcome: String,
    /// When it is to run next.
    pub next_at: Timestamp,
    /// How long that is from now; nothing when it is past.
    pub next_in: Duration,
}

/// Tasks.
#[async_trait]
pub trait Tasks: Send + Sync {
    /// Keeps what became of a task.
    async fn record_task(&self, fence: Option<&Fence>, run: &TaskRun) -> Result<()>;

    /// The last status of every task, by name.
    async fn tasks(&self) -> Result<Vec<TaskStatus>>;
}
