//! `Active`: is the certificate due for renewal? The CA's own window first, age as the backstop. DNS is not
//! looked at: it never blocks a renewal.

use std::time::Duration;

use holdfast_model::{CertificateSummary, Domain, Outcome, Timestamp};
use holdfast_store::{Claimed, Error};

use super::{Step, sealed_or_lost};
use crate::dispatch::Shared;

/// How often the CA is asked for its window where it does not say.
const ASK_EVERY: Duration = Duration::from_secs(6 * 3600);

pub(super) async fn look(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    let domain = &claimed.domain;
    let Some(certificate) = &domain.certificate else { return Ok(Outcome::RenewalNeeded.into()) };
    let now = shared.clock.now();
    let renewal = &shared.config.policy.renewal;
    let ask_at = renewal.ask_at(certificate.not_before, certificate.not_after);
    if now < ask_at {
        return Ok(Outcome::RenewalLater { look_at: ask_at }.into());
    }
    let by_age = renewal.due_at(certificate.not_before, certificate.not_after);
    // Where the CA names no window, a window of our own: a million issued in one hour are not renewed in one.
    let by_age = share(domain, by_age.minus(certificate.lifetime() / 30), by_age);
    let (due_at, again_at) = match window(shared, domain).await? {
        Some((at, again_at)) => (sane(at, certificate).unwrap_or(by_age), again_at),
        None => (by_age, by_age),
    };
    match verdict(now, due_at, again_at) {
        Outcome::RenewalNeeded => Ok(unless_held(shared, domain, now).await?.into()),
        later => Ok(later.into()),
    }
}

/// A person went back to this certificate, perhaps because of what a renewal brought: it stays for a while.
async fn unless_held(shared: &Shared, domain: &Domain, now: Timestamp) -> Result<Outcome, Error> {
    let held = shared.store.held_until(domain.id).await?.filter(|until| *until > now);
    Ok(held.map_or(Outcome::RenewalNeeded, |look_at| Outcome::RenewalLater { look_at }))
}

fn verdict(now: Timestamp, due_at: Timestamp, again_at: Timestamp) -> Outcome {
    if now >= due_at {
        return Outcome::RenewalNeeded;
    }
    Outcome::RenewalLater { look_at: due_at.min(again_at.max(now.plus(Duration::from_secs(60)))) }
}

/// A window that leaves less than a tenth of the life is not one to rely on.
fn sane(at: Timestamp, certificate: &CertificateSummary) -> Option<Timestamp> {
    (at <= certificate.not_after.minus(certificate.lifetime() / 10)).then_some(at)
}

/// The moment in the CA's window that is ours, and when to ask again; none where the CA has no window for it.
async fn window(shared: &Shared, domain: &Domain) -> Result<Option<(Timestamp, Timestamp)>, Error> {
    if !shared.is_from_our_ca(domain) {
        return Ok(None);
    }
    let bundle = sealed_or_lost(domain, shared.store.bundle(domain.id).await)?;
    let Some(bundle) = bundle else { return Ok(None) };
    match shared.ca.renewal_window(&bundle.chain_pem).await {
        Ok(Some(window)) => {
            let again_at = shared.clock.now().plus(window.retry_after.unwrap_or(ASK_EVERY));
            Ok(Some((share(domain, window.start, window.end), again_at)))
        }
        Ok(None) => Ok(None),
        Err(error) => {
            tracing::debug!(domain = %domain.name, error = &error as &dyn std::error::Error, "no renewal window");
            Ok(None)
        }
    }
}

/// The same moment of the window each time, another one for each domain: so the load is spread.
fn share(domain: &Domain, start: Timestamp, end: Timestamp) -> Timestamp {
    let (_, low) = domain.id.0.as_u64_pair();
    let share = f64::from(u32::try_from(low & 0xffff_ffff).unwrap_or(0)) / f64::from(u32::MAX);
    start.plus(end.since(start).mul_f64(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_in_the_past_means_now() {
        let at = Timestamp::from_seconds;
        assert_eq!(verdict(at(100), at(50), at(500)), Outcome::RenewalNeeded);
        assert_eq!(verdict(at(100), at(1000), at(500)), Outcome::RenewalLater { look_at: at(500) });
        assert_eq!(verdict(at(100), at(1000), at(100)), Outcome::RenewalLater { look_at: at(160) });
    }
}
