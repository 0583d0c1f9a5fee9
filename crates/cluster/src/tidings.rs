//! What happens to the leases of this replica, told to whoever reads the event stream and the metrics.

use std::{sync::Arc, time::Duration};

use holdfast_lease::{Event, Events, Happening};
use holdfast_store::Actor;
use tokio::time::sleep;

use crate::{ACME_WRITER, member::Member, task::chain};

/// How often a store that fails is asked to keep a notice.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Tells until the replica has left, and then what is left to tell.
pub(crate) async fn tell(member: Arc<Member>, mut events: Events) {
    loop {
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            () = member.left.cancelled() => None,
        };
        let Some(event) = event else { return };
        count(&event);
        // Whoever registers an account takes the lease for a moment; that is no news.
        if event.name.as_str() != ACME_WRITER {
            note(&member, &event).await;
        }
    }
}

fn count(event: &Event) {
    let lease = event.name.as_str().to_owned();
    let held = match &event.happening {
        Happening::Elected => {
            metrics::counter!("holdfast_lease_acquisitions_total", "lease" => lease.clone())
                .increment(1);
            Some(1.0)
        }
        Happening::Lost(_) => {
            metrics::counter!("holdfast_lease_losses_total", "lease" => lease.clone()).increment(1);
            Some(0.0)
        }
        Happening::SteppedDown { .. } => Some(0.0),
        Happening::RenewedLate { .. } => {
            metrics::counter!("holdfast_lease_late_renewals_total", "lease" => lease.clone())
                .increment(1);
            None
        }
        _ => None,
    };
    if let Some(held) = held {
        metrics::gauge!("holdfast_lease_held", "lease" => lease.clone()).set(held);
    }
    // Below two to the fifty-third: exact.
    #[expect(clippy::cast_precision_loss, reason = "a term is no such number")]
    metrics::gauge!("holdfast_lease_term", "lease" => lease).set(event.term.number() as f64);
}

async fn note(member: &Member, event: &Event) {
    let (lease, term) = (event.name.as_str(), event.term);
    let leadership = lease == member.settings.leadership;
    let instance = &member.settings.instance;
    let (kind, detail) = match &event.happening {
        Happening::Elected => (
            if leadership { "leader-elected" } else { "lease-acquired" },
            format!("{instance} holds it in term {term}"),
        ),
        Happening::Lost(loss) => (
            if leadership { "leader-lost" } else { "lease-lost" },
            format!("{instance} lost it in term {term}: {loss}"),
        ),
        Happening::SteppedDown { successor } => (
            if leadership { "leader-stepped-down" } else { "lease-stepped-down" },
            match successor {
                Some(successor) => format!("{instance} lets go of term {term} for {successor}"),
                None => format!("{instance} lets go of term {term}"),
            },
        ),
        _ => return,
    };
    let actor = Actor { instance: instance.clone(), name: "cluster".to_owned() };
    for _ in 0..TRIES {
        match member.settings.store.notice(&actor, kind, lease, &detail).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(error = chain(&error), "a notice was not kept"),
        }
        sleep(PAUSE).await;
    }
}
