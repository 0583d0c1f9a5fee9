//! Handshakes that are pending. When there are too many the oldest gives way, so that clients which connect and stay
//! silent cannot keep others out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

pub(super) struct Queue {
    waiting: Mutex<VecDeque<Weak<Notify>>>,
    limit: usize,
}

/// A place in the queue, given up by dropping it.
pub(super) struct Ticket(Arc<Notify>);

impl Queue {
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: Mutex::new(VecDeque::new()), limit: limit.max(1) }
    }

    pub(super) fn enter(&self) -> Ticket {
        let ticket = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(Arc::downgrade(&ticket));
        // Some have left from the middle: count only when it looks too long.
        if waiting.len() > self.limit {
            waiting.retain(|other| other.strong_count() > 0);
        }
        if waiting.len() > self.limit
            && let Some(oldest) = waiting.pop_front().and_then(|oldest| oldest.upgrade())
        {
            oldest.notify_one();
        }
        Ticket(ticket)
    }
}

impl Ticket {
    /// Waits until it has to give way.
    pub(super) async fn must_go(&self) {
        self.0.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn the_oldest_gives_way_and_those_who_left_do_not_count() {
        let queue = Queue::new(2);
        let (first, second) = (queue.enter(), queue.enter());
        drop(second);
        let third = queue.enter();
        assert!(first.must_go().now_or_never().is_none());
        let _fourth = queue.enter();
        assert!(first.must_go().now_or_never().is_some());
        assert!(third.must_go().now_or_never().is_none());
    }
}
