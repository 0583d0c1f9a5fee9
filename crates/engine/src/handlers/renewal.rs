//! `Active`: is the certificate due for renewal? The CA's own window first, age as the backstop. DNS is not
//! looked at: it never blocks a renewal.

use std::time::Duration;

use holdfast_cluster::StoreClock;
use holdfast_model::{CertificateSummary, Domain, Outcome, Timestamp};
use holdfast_store::{Claimed, Error};

use super::{
    Step,
    damage::{self, Stored},
};
use crate::dispatch::Shared;

/// How often the CA is asked for its window where it does not say.
const ASK_EVERY: Duration = Duration::from_secs(6 * 3600);

/// When it is asked again where it did not answer: a window may have been moved into the past meanwhile.
const ASK_AGAIN: Duration = Duration::from_secs(3600);

/// When it is looked at again after the clock stepped.
const SETTLES: Duration = Duration::from_secs(60);
/// A certificate that came after the clock had jumped ahead is not renewed sooner than this.
const AFTER_JUMP: Duration = Duration::from_secs(24 * 3600);

/// What the CA says of when to renew.
enum Window {
    /// The moment in its window that is ours, and when to ask again.
    Named { at: Timestamp, again_at: Timestamp },
    /// It has none for this certificate.
    None,
    /// It did not answer.
    Unknown,
}

pub(super) async fn look(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    let domain = &claimed.domain;
    let Some(certificate) = &domain.certificate else { return Ok(Outcome::RenewalNeeded.into()) };
    let now = shared.clock.now();
    let bundle = match damage::read(shared, domain).await? {
        Stored::Whole(bundle) => bundle,
        Stored::Damaged(note) => {
            return Ok(damage::replace(shared, domain, note, now).await?.into());
        }
    };
    let renewal = &shared.config.policy.renewal;
    let ask_at = renewal.ask_at(certificate.not_before, certificate.not_after);
    let (start, end) = renewal.window(certificate.not_before, certificate.not_after);
    let by_age = share(domain, start, end);
    let window = window(shared, domain, &bundle.chain_pem).await;
    match verdict(now, certificate, by_age, &window) {
        Outcome::RenewalNeeded => match doubted(&shared.clock, domain, now) {
            Some(wait) => Ok(Outcome::RenewalLater { look_at: now.plus(wait) }.into()),
            None => Ok(unless_held(shared, domain, now).await?.into()),
        },
        // Before the usual time the CA was asked because the database was restored: once, if it answered.
        Outcome::RenewalLater { look_at } if !matches!(window, Window::Unknown) => {
            Ok(Outcome::RenewalLater { look_at: look_at.max(ask_at) }.into())
        }
        later => Ok(later.into()),
    }
}

fn doubted(clock: &StoreClock, domain: &Domain, now: Timestamp) -> Option<Duration> {
    let active_since = clock.retold(domain).entered_at;
    doubt(clock.is_unsettled(), clock.jumped_before(active_since), now.since(active_since))
}

/// How long a renewal waits because the clock stepped: until it is clear that the step stands, and
/// after a jump ahead for a day, so that a clock that is wrong renews no name again and again.
fn doubt(unsettled: bool, jumped_before: bool, active_for: Duration) -> Option<Duration> {
    let left = AFTER_JUMP.saturating_sub(active_for);
    match (unsettled, jumped_before) {
        (true, _) => Some(SETTLES),
        (false, true) => Some(left).filter(|left| !left.is_zero()),
        (false, false) => None,
    }
}

/// A person went back to this certificate, perhaps because of what a renewal brought: it stays for a while.
async fn unless_held(shared: &Shared, domain: &Domain, now: Timestamp) -> Result<Outcome, Error> {
    let held = shared.store.held_until(domain.id).await?;
    // It is held for half of what is left of it, whatever a wrong clock has made of that.
    let left = domain.certificate.as_ref().map(|certificate| certificate.not_after.since(now));
    let held = held.map(|until| until.min(now.plus(left.unwrap_or_default() / 2)));
    let held = held.filter(|until| *until > now);
    Ok(held.map_or(Outcome::RenewalNeeded, |look_at| Outcome::RenewalLater { look_at }))
}

fn verdict(
    now: Timestamp,
    certificate: &CertificateSummary,
    by_age: Timestamp,
    window: &Window,
) -> Outcome {
    let (due_at, again_at) = match *window {
        Window::Named { at, again_at } => (sane(at, certificate).unwrap_or(by_age), again_at),
        Window::Unknown => (by_age, now.plus(ASK_AGAIN)),
        Window::None => (by_age, by_age),
    };
    if now >= due_at {
        return Outcome::RenewalNeeded;
    }
    Outcome::RenewalLater { look_at: due_at.min(again_at.max(now.plus(Duration::from_secs(60)))) }
}

/// A window that leaves less than a tenth of the life is not one to rely on.
fn sane(at: Timestamp, certificate: &CertificateSummary) -> Option<Timestamp> {
    (at <= certificate.not_after.minus(certificate.lifetime() / 10)).then_some(at)
}

async fn window(shared: &Shared, domain: &Domain, chain_pem: &str) -> Window {
    if !shared.is_from_our_ca(domain) {
        return Window::None;
    }
    match shared.ca.renewal_window(chain_pem).await {
        Ok(Some(window)) => {
            let again_at = shared.clock.now().plus(window.retry_after.unwrap_or(ASK_EVERY));
            Window::Named { at: share(domain, window.start, window.end), again_at }
        }
        Ok(None) => Window::None,
        Err(error) => {
            tracing::debug!(domain = %domain.name, error = &error as &dyn std::error::Error, "the renewal window is not known");
            Window::Unknown
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

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    /// At second 100 of a certificate that ends at second 100,000, and by its age is due at 60,000.
    fn verdict(window: &Window) -> Outcome {
        let certificate = CertificateSummary {
            serial: String::new(),
            sha256: String::new(),
            not_before: at(0),
            not_after: at(100_000),
            issuer: String::new(),
            directory: String::new(),
        };
        super::verdict(at(100), &certificate, at(60_000), window)
    }

    #[test]
    fn a_jump_of_the_clock_puts_a_renewal_off_for_a_day_and_no_longer() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert_eq!(doubt(true, false, hours(1_000)), Some(SETTLES));
        assert_eq!(doubt(false, true, hours(1)), Some(hours(23)));
        assert_eq!(doubt(false, true, hours(24)), None);
        assert_eq!(doubt(false, false, hours(1)), None);
    }

    fn named(moment: i64, again: i64) -> Window {
        Window::Named { at: at(moment), again_at: at(again) }
    }

    fn later(moment: i64) -> Outcome {
        Outcome::RenewalLater { look_at: at(moment) }
    }

    #[test]
    fn a_window_in_the_past_means_now() {
        assert_eq!(verdict(&named(50, 500)), Outcome::RenewalNeeded);
    }

    #[test]
    fn a_window_to_come_decides_and_the_ca_says_when_to_ask_again() {
        assert_eq!(verdict(&named(1_000, 500)), later(500));
        assert_eq!(verdict(&named(1_000, 5_000)), later(1_000));
        assert_eq!(verdict(&named(80_000, 79_000)), later(79_000));
        assert_eq!(verdict(&named(1_000, 100)), later(160), "not more than once a minute");
    }

    #[test]
    fn a_window_that_leaves_too_little_is_not_kept_to() {
        assert_eq!(verdict(&named(90_001, 99_000)), later(60_000));
    }

    #[test]
    fn a_ca_that_does_not_answer_is_asked_again_soon_and_one_without_windows_is_not() {
        assert_eq!(verdict(&Window::Unknown), later(3_700));
        assert_eq!(verdict(&Window::None), later(60_000));
    }
}
