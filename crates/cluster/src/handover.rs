//! The end in good order: leases go to a named successor, each the oldest healthy replica that may hold it.

use std::time::Duration;

use holdfast_lease::{Holder, Leadership};
use holdfast_store::Replica;

use crate::{Role, member::Member, task::chain};

/// How long letting go of leases may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Lets go of every lease.
pub(crate) async fn hand_over(member: &Member) {
    let roll = current(member).await;
    let instance = &member.settings.instance;
    if let Some(lead) = &member.lead {
        step_down(lead, successor(&roll, instance, Role::written_leads));
    }
    for work in member.work().iter() {
        step_down(work, successor(&roll, instance, Role::written_works));
    }
    if let Err(error) = member.elector.shut_down(LIMIT).await {
        tracing::warn!(error = chain(&error), "leases were not released; they run out");
    }
}

/// The roll as it is now, or as it was last heard.
async fn current(member: &Member) -> Vec<Replica> {
    let settings = &member.settings;
    let asked = tokio::time::timeout(LIMIT / 5, settings.store.replicas(settings.stale)).await;
    match asked {
        Ok(Ok(roll)) => roll,
        _ => member.roll.borrow().clone(),
    }
}

fn step_down(lease: &Leadership, successor: Option<&Replica>) {
    if lease.is_leader() {
        lease.step_down(successor.and_then(|replica| Holder::new(&replica.instance).ok()));
    }
}

fn successor<'a>(
    roll: &'a [Replica],
    instance: &str,
    may: impl Fn(&str) -> bool,
) -> Option<&'a Replica> {
    roll.iter().find(|replica| {
        replica.healthy && !replica.draining && replica.instance != instance && may(&replica.role)
    })
}

#[cfg(test)]
mod tests {
    use holdfast_model::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn replica(instance: &str, role: &str, healthy: bool, draining: bool) -> Replica {
        let at = Timestamp::from_seconds(1);
        Replica {
            instance: instance.to_owned(),
            incarnation: Uuid::nil(),
            url: String::new(),
            role: role.to_owned(),
            version: String::new(),
            registered_at: at,
            started_at: at,
            last_heartbeat_at: at,
            healthy,
            draining,
        }
    }

    #[test]
    fn the_oldest_healthy_other_that_may_is_the_successor() {
        let roll = [
            replica("gone", "all", false, false),
            replica("me", "all", true, false),
            replica("leaving", "all", true, true),
            replica("worker", "worker", true, false),
            replica("api", "api", true, false),
        ];
        let named =
            |may: fn(&str) -> bool| successor(&roll, "me", may).map(|to| to.instance.as_str());
        assert_eq!(named(Role::written_leads), Some("api"));
        assert_eq!(named(Role::written_works), Some("worker"));
        assert_eq!(successor(&roll[..3], "me", |_| true), None);
    }
}
