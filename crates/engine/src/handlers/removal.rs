//! Removal, which has no state of its own: challenges dropped, order abandoned, the certificate withdrawn
//! from live edges and, if asked, revoked; then the name is free. Every step can be repeated.

use std::time::Duration;

use holdfast_acme::Class;
use holdfast_cluster::StoreClock;
use holdfast_model::Domain;
use holdfast_store::{Claimed, DeploymentStatus, Error};

use super::sealed_or_lost;
use crate::{Deployment, dispatch::Shared};

/// How long a removal waits for a revocation that the CA does not take.
const PATIENCE_WITH_CA: Duration = Duration::from_secs(24 * 3600);
/// How long a removal waits for live edges that do not drop the name. They drop it later, like those that are away, before anything
/// newer of that name.
const PATIENCE_WITH_EDGES: Duration = Duration::from_secs(3600);
/// How long to wait for a CA that does not take a revocation, or for edges whose report does not wake us: a quarter of what was waited
/// already, and no less or more than this.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
const LONGEST_LOOK: Duration = Duration::from_secs(600);

pub(crate) async fn remove(shared: &Shared, claimed: Claimed) -> Result<(), Error> {
    let claimed = shared.store.begin_teardown(&claimed).await?;
    shared.queue_moved.notify_one();
    let complete = withdrawn(shared, &claimed).await? && revoked(shared, &claimed).await?;
    shared.holds.drop(claimed.domain.id, claimed.epoch);
    if !complete {
        let waited = waited(&shared.clock, &claimed.domain).unwrap_or_default();
        return shared.store.postpone_removal(&claimed, look_again(waited)).await;
    }
    shared.store.finish_removal(&claimed, &shared.config.actor()).await?;
    tracing::info!(domain = %claimed.domain.name, "removed; the name is free");
    Ok(())
}

fn look_again(waited: Duration) -> Duration {
    (waited / 4).clamp(LOOK_AGAIN, LONGEST_LOOK)
}

/// Did every live edge report it gone? Those that are stale or out of order as a whole drop it when they are back, before anything newer
/// of that name.
async fn withdrawn(shared: &Shared, claimed: &Claimed) -> Result<bool, Error> {
    if shared.config.deployment == Deployment::Stored {
        return Ok(true);
    }
    let domain = &claimed.domain;
    let status = shared.store.deployment(domain.id).await?;
    if is_gone(&status, Duration::ZERO) {
        return Ok(true);
    }
    let waited = waited(&shared.clock, domain).unwrap_or_default();
    if !is_gone(&status, waited) || shared.store.are_ages_doubtful().await? {
        return Ok(false);
    }
    let refusals: Vec<_> =
        status.refused.iter().map(|(edge, note)| format!("{edge}: {note}")).collect();
    tracing::warn!(
        domain = %domain.name,
        edges_behind = status.behind,
        refused = refusals.join("; "),
        "removed although live edges did not drop it within an hour"
    );
    Ok(true)
}

/// Is there no edge left to wait for, after this long?
fn is_gone(status: &DeploymentStatus, waited: Duration) -> bool {
    let holds = status.behind > 0 || !status.refused.is_empty();
    let is_done = !holds || waited >= PATIENCE_WITH_EDGES;
    status.revision.is_none() || (status.tombstone && is_done)
}

/// Is the revocation done, or not worth waiting for any longer?
async fn revoked(shared: &Shared, claimed: &Claimed) -> Result<bool, Error> {
    let domain = &claimed.domain;
    if !domain.revoke_on_removal || !shared.is_from_our_ca(domain) {
        return Ok(true);
    }
    if is_past(&shared.clock, domain) && !shared.store.are_ages_doubtful().await? {
        return Ok(true);
    }
    let bundle = sealed_or_lost(domain, shared.store.bundle(domain.id).await)?;
    let Some(bundle) = bundle else { return Ok(true) };
    let Err(error) = shared.ca.revoke(&bundle.chain_pem, Some(&bundle.key)).await else {
        return Ok(true);
    };
    tracing::warn!(domain = %domain.name, error = &error as &dyn std::error::Error, "not revoked");
    Ok(matches!(error.class(), Class::Hopeless(_)))
}

/// An expired certificate needs no revocation, and a CA that has been silent for a day must not keep the name. A clock that may be
/// wrong does not say so: with the domain goes what it takes to revoke its certificate.
fn is_past(clock: &StoreClock, domain: &Domain) -> bool {
    if clock.doubts_ages() {
        return false;
    }
    let (told, now) = (clock.retold(domain), clock.now());
    let expired = told.certificate.is_none_or(|certificate| certificate.not_after <= now);
    expired || waited(clock, domain).is_some_and(|waited| waited >= PATIENCE_WITH_CA)
}

/// How long it has been being removed; none where the clock may be wrong.
fn waited(clock: &StoreClock, domain: &Domain) -> Option<Duration> {
    if clock.doubts_ages() {
        return None;
    }
    clock.retold(domain).removing_since.map(|since| clock.now().since(since))
}

#[cfg(test)]
mod tests {
    use holdfast_model::{Note, State};
    use holdfast_store::Revision;

    use super::*;
    use crate::samples::{certificate, clock_at, domain, jump, now};

    const HOUR: Duration = Duration::from_secs(3600);

    fn ends_in(left: Duration) -> Domain {
        Domain { certificate: Some(certificate(now().plus(left))), ..domain(State::Active) }
    }

    fn removed_for(waited: Duration) -> Domain {
        Domain { removing_since: Some(now().minus(waited)), ..ends_in(HOUR * 1_000) }
    }

    #[test]
    fn edges_are_waited_for_unless_they_are_out_of_order_and_not_for_ever() {
        let note = |code: &'static str| vec![("fra-1".to_owned(), Note::new(code, "its words"))];
        let status = DeploymentStatus {
            revision: Some(Revision::default()),
            tombstone: true,
            live: 2,
            ..DeploymentStatus::default()
        };
        let behind = DeploymentStatus { behind: 1, ..status.clone() };
        let refused = DeploymentStatus { refused: note("edge-still-serves"), ..status.clone() };
        let broken = DeploymentStatus { broken: note("edge-reload-failed"), ..status.clone() };
        assert!(is_gone(&status, Duration::ZERO) && is_gone(&broken, Duration::ZERO));
        for holding in [behind, refused] {
            assert!(!is_gone(&holding, HOUR / 2) && is_gone(&holding, HOUR), "{holding:?}");
            // Not withdrawn at all yet.
            assert!(!is_gone(&DeploymentStatus { tombstone: false, ..holding }, HOUR));
        }
    }

    #[test]
    fn a_ca_that_does_not_revoke_is_asked_ever_more_seldom() {
        let (mut waited, mut asked) = (Duration::ZERO, 0);
        while waited < PATIENCE_WITH_CA {
            waited += look_again(waited);
            asked += 1;
        }
        assert!((100..200).contains(&asked), "{asked}");
    }

    #[test]
    fn what_has_ended_or_was_waited_for_long_is_past() {
        let clock = clock_at(now());
        for (domain, past) in [
            (ends_in(Duration::ZERO), true),
            (ends_in(HOUR), false),
            (removed_for(PATIENCE_WITH_CA), true),
            (removed_for(HOUR), false),
        ] {
            assert_eq!(is_past(&clock, &domain), past, "{domain:?}");
        }
    }

    #[test]
    fn nothing_is_past_by_a_clock_that_has_just_stepped() {
        let (ahead, back) = (clock_at(now()), clock_at(now()));
        jump(&ahead, now().plus(HOUR / 60));
        jump(&back, now().minus(HOUR / 60));
        for clock in [ahead, back] {
            assert!(!is_past(&clock, &ends_in(Duration::ZERO)));
            assert!(!is_past(&clock, &removed_for(PATIENCE_WITH_CA + HOUR)));
        }
    }
}
