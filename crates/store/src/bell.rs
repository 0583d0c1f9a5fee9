//! Wakes whoever waits in this process. What happens in other processes is a backend's business.

use tokio::sync::watch;

use crate::Topic;

/// One counter per topic.
#[derive(Debug)]
pub(crate) struct Bell {
    work: watch::Sender<u64>,
    deployments: watch::Sender<u64>,
    events: watch::Sender<u64>,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self {
            work: watch::Sender::new(0),
            deployments: watch::Sender::new(0),
            events: watch::Sender::new(0),
        }
    }

    pub(crate) fn ring(&self, topic: Topic) {
        self.counter(topic).send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn listen(&self, topic: Topic) -> watch::Receiver<u64> {
        self.counter(topic).subscribe()
    }

    const fn counter(&self, topic: Topic) -> &watch::Sender<u64> {
        match topic {
            Topic::Work => &self.work,
            Topic::Deployments => &self.deployments,
            Topic::Events => &self.events,
        }
    }
}
