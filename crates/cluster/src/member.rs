//! What the parts of one replica's membership share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_lease::{Elector, Leadership, Name, Priority, Wish};
use holdfast_store::{NewReplica, Outage, Replica};
use tokio::sync::{Notify, SetOnce, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Master, Settings, StoreClock, office::Office};

/// One replica as a member of the cluster.
pub(crate) struct Member {
    pub(crate) settings: Settings,
    pub(crate) elector: Elector,
    /// The leadership, where the role contends for it.
    pub(crate) lead: Option<Leadership>,
    /// The leases of work it contends for.
    pub(crate) work: Mutex<Vec<Leadership>>,
    pub(crate) wish: Wish,
    pub(crate) office: Office,
    /// All replicas as last heard of, oldest first.
    pub(crate) roll: watch::Sender<Vec<Replica>>,
    pub(crate) master: watch::Sender<Option<Master>>,
    /// Somebody asked for the master.
    pub(crate) asked: Notify,
    /// A beat is under way: it may register anew, and who leaves must come after it.
    pub(crate) beating: tokio::sync::Mutex<()>,
    /// The store's clock.
    pub(crate) clock: StoreClock,
    /// Beat now.
    pub(crate) call_again: Notify,
    /// It is about to end.
    pub(crate) draining: CancellationToken,
    /// It has ended.
    pub(crate) left: CancellationToken,
    /// Another process bears its name.
    pub(crate) taken: CancellationToken,
    /// Why the database is no longer the one that was opened.
    pub(crate) lost: SetOnce<Outage>,
}

impl Member {
    pub(crate) fn incarnation(&self) -> Uuid {
        self.elector.incarnation().as_uuid()
    }

    pub(crate) fn introduction(&self) -> NewReplica {
        introduction(&self.settings, self.incarnation())
    }

    pub(crate) fn work(&self) -> MutexGuard<'_, Vec<Leadership>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Contends for a lease of work from now on.
    pub(crate) fn contend(&self, name: &Name) -> Leadership {
        let leadership = self.elector.contend(name, self.wish);
        self.work().push(leadership.clone());
        leadership
    }
}

pub(crate) fn introduction(settings: &Settings, incarnation: Uuid) -> NewReplica {
    NewReplica {
        instance: settings.instance.clone(),
        incarnation,
        url: settings.url.clone(),
        role: settings.role.as_str().to_owned(),
        version: settings.version.clone(),
    }
}

/// Older ones first: each older replica that lives is a step down.
pub(crate) fn rank(replicas: &[Replica], instance: &str) -> Priority {
    let healthy = replicas.iter().filter(|replica| replica.healthy);
    let older = healthy.take_while(|replica| replica.instance != instance).count();
    Priority(i16::try_from(older).map_or(i16::MIN, |older| -older))
}

#[cfg(test)]
mod tests {
    use holdfast_model::Timestamp;

    use super::*;

    fn replica(instance: &str, healthy: bool) -> Replica {
        let at = Timestamp::from_seconds(0);
        Replica {
            instance: instance.to_owned(),
            incarnation: Uuid::nil(),
            url: String::new(),
            role: "all".to_owned(),
            version: String::new(),
            registered_at: at,
            started_at: at,
            last_heartbeat_at: at,
            healthy,
            draining: false,
        }
    }

    #[test]
    fn the_oldest_that_lives_ranks_first() {
        let roll = [replica("gone", false), replica("old", true), replica("young", true)];
        assert_eq!(rank(&roll, "old"), Priority(0));
        assert_eq!(rank(&roll, "young"), Priority(-1));
        assert_eq!(rank(&roll, "not known yet"), Priority(-2));
    }
}
