//! Being told that something changed. A hint only: whoever listens also polls.

use tokio::sync::watch;

/// What one may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A domain became due, or the queue for orders may move.
    Work,
    /// A deployment was written.
    Deployments,
    /// An event was appended.
    Events,
}

/// Being told.
pub trait Wake: Send + Sync {
    /// A counter that rises when something of this topic changed, on any replica.
    fn wake(&self, topic: Topic) -> watch::Receiver<u64>;
}
