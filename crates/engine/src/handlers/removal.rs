//! Removal, which has no state of its own: challenges dropped, order abandoned, the certificate withdrawn
//! from live edges and, if asked, revoked; then the name is free. Every step can be repeated.

use std::time::Duration;

use holdfast_acme::Class;
use holdfast_model::Domain;
use holdfast_store::{Claimed, Error};

use super::sealed_or_lost;
use crate::{Deployment, dispatch::Shared};

/// How long a removal waits for a revocation that the CA does not take.
const PATIENCE_WITH_CA: Duration = Duration::from_secs(24 * 3600);
/// How long to wait for a CA that does not take a revocation, or for edges whose report does not wake us.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

pub(crate) async fn remove(shared: &Shared, claimed: Claimed) -> Result<(), Error> {
    let claimed = shared.store.begin_teardown(&claimed).await?;
    shared.queue_moved.notify_one();
    let complete = withdrawn(shared, &claimed).await? && revoked(shared, &claimed).await?;
    shared.holds.drop(claimed.domain.id, claimed.epoch);
    if !complete {
        return shared.store.postpone_removal(&claimed, LOOK_AGAIN).await;
    }
    shared.store.finish_removal(&claimed, &shared.config.actor()).await?;
    tracing::info!(domain = %claimed.domain.name, "removed; the name is free");
    Ok(())
}

/// Did every live edge report it gone? Stale ones drop it when they return, before anything newer of that name.
async fn withdrawn(shared: &Shared, claimed: &Claimed) -> Result<bool, Error> {
    if shared.config.deployment == Deployment::Stored {
        return Ok(true);
    }
    let status = shared.store.deployment(claimed.domain.id).await?;
    Ok(status.revision.is_none()
        || (status.tombstone && status.behind == 0 && status.refused.is_empty()))
}

/// Is the revocation done, or not worth waiting for any longer?
async fn revoked(shared: &Shared, claimed: &Claimed) -> Result<bool, Error> {
    let domain = &claimed.domain;
    if !domain.revoke_on_removal || !shared.is_from_our_ca(domain) || is_past(shared, domain) {
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

/// An expired certificate needs no revocation, and a CA that has been silent for a day must not keep the name.
fn is_past(shared: &Shared, domain: &Domain) -> bool {
    let (domain, now) = (shared.clock.retold(domain), shared.clock.now());
    let expired = domain.certificate.is_none_or(|certificate| certificate.not_after <= now);
    let waited = domain.removing_since.map_or(Duration::ZERO, |since| now.since(since));
    expired || waited >= PATIENCE_WITH_CA
}
