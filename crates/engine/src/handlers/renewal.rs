//! `Active`: is the certificate due for renewal? The CA's own window first, age as the backstop. DNS is not
//! looked at: it never blocks a renewal.

use std::time::Duration;

use holdfast_cluster::StoreClock;
use holdfast_model::{CertificateSummary, Domain, Note, Outcome, Renewal, Timestamp};
use holdfast_store::{Claimed, Error};

use super::{
    Step,
    damage::{self, Stored},
};
use crate::dispatch::Shared;

/// However soon the CA would like to be asked again, and however late: a window may be moved into the past meanwhile.
const ASK_BETWEEN: (Duration, Duration) = (Duration::from_secs(60), DAY);

/// When it is asked again where it did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(3600);

/// What is near its end, and may not be renewed now, is looked at this often.
const NEAR_THE_END: Duration = Duration::from_secs(30 * 60);

/// When it is looked at again after the clock stepped.
const SETTLES: Duration = Duration::from_secs(60);
/// A certificate that came after the clock had jumped ahead is not renewed sooner than this.
const AFTER_JUMP: Duration = DAY;

/// While edges are waited for, the CA is asked in the first minutes of every stretch: the wait between two looks is shorter.
const ASK_IN_FIRST: Duration = Duration::from_secs(15 * 60);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// No more certificates of a name than this come within the time for which each is to be used.
const CERTIFICATES: u32 = 2;

/// What the CA said of when to renew.
struct Asked {
    /// The moment in its window that is ours; none where it has no window for this certificate, or did not answer.
    at: Option<Timestamp>,
    /// When it is asked again.
    again_at: Timestamp,
    /// Where it says why.
    explained_at: Option<String>,
}

/// What follows from a certificate's age and from what the CA said.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Later(Timestamp),
    /// The CA moved its window into the past, or it is the usual time.
    Due {
        by_window: bool,
    },
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
    let asked = ask(shared, domain, &bundle.chain_pem, now).await;
    let outcome = match verdict(now, certificate, by_age(shared, domain, certificate), &asked) {
        Verdict::Due { by_window } => {
            let outcome = due(shared, domain, certificate, by_window, asked.again_at).await?;
            if by_window && outcome == Outcome::RenewalNeeded {
                let why = asked.explained_at.as_deref().unwrap_or("the CA did not say");
                tracing::info!(domain = %domain.name, why, "renewed when the CA would like it");
            }
            outcome
        }
        Verdict::Later(look_at) => match explained(&asked) {
            Some(note) => Outcome::RenewalPlanned { look_at, note },
            None => Outcome::RenewalLater { look_at },
        },
    };
    Ok(in_time(outcome, certificate, now).into())
}

/// Is a certificate that no edge serves yet to be renewed? It may be waited for longer than it lives.
pub(super) async fn is_overdue(shared: &Shared, domain: &Domain) -> Result<bool, Error> {
    let Some(certificate) = &domain.certificate else { return Ok(false) };
    let now = shared.clock.now();
    let mut asked = Asked { at: None, again_at: now, explained_at: None };
    let stayed = now.since(shared.clock.retold(domain).entered_at);
    if asks_in(stayed, shared.config.policy.renewal.ask_every)
        && let Stored::Whole(bundle) = damage::read(shared, domain).await?
    {
        asked = ask(shared, domain, &bundle.chain_pem, now).await;
    }
    let by_age = by_age(shared, domain, certificate);
    let Verdict::Due { by_window } = verdict(now, certificate, by_age, &asked) else {
        return Ok(false);
    };
    let outcome = due(shared, domain, certificate, by_window, now).await?;
    Ok(matches!(outcome, Outcome::RenewalNeeded))
}

fn asks_in(stayed: Duration, every: Duration) -> bool {
    let passed = stayed.as_secs().checked_rem(every.as_secs()).unwrap_or_default();
    stayed >= every && passed < ASK_IN_FIRST.as_secs()
}

/// The moment that is ours in the window in which certificates are renewed where the CA names none.
fn by_age(shared: &Shared, domain: &Domain, certificate: &CertificateSummary) -> Timestamp {
    let renewal = &shared.config.policy.renewal;
    let (start, end) = renewal.window(certificate.not_before, certificate.not_after);
    share(domain, start, end)
}

/// It is due; may it be renewed?
async fn due(
    shared: &Shared,
    domain: &Domain,
    certificate: &CertificateSummary,
    by_window: bool,
    again_at: Timestamp,
) -> Result<Outcome, Error> {
    let now = shared.clock.now();
    if let Some(wait) = doubted(&shared.clock, domain, now) {
        return Ok(Outcome::RenewalLater { look_at: now.plus(wait) });
    }
    let held = unless_held(shared, domain, now).await?;
    if held != Outcome::RenewalNeeded {
        return Ok(held);
    }
    let renewal = &shared.config.policy.renewal;
    let Some(rest) = Rest::of(renewal, &shared.clock.retold(domain), certificate, now) else {
        return Ok(Outcome::RenewalNeeded);
    };
    // The CA may have revoked it; once it may be right.
    if by_window {
        let since = now.minus(rest.until.since(rest.since));
        let made = shared.store.certificates_since(domain.id, since, CERTIFICATES).await?;
        if made < CERTIFICATES {
            return Ok(Outcome::RenewalNeeded);
        }
    }
    let note = rest.note(certificate);
    tracing::debug!(domain = %domain.name, why = %note.detail, "a renewal waits");
    Ok(Outcome::RenewalPlanned { look_at: rest.until.min(again_at.max(now.plus(ASK_AGAIN))), note })
}

/// For how long a certificate that came is used before the next is ordered, however late it is by its own dates.
#[derive(Debug, PartialEq, Eq)]
struct Rest {
    since: Timestamp,
    until: Timestamp,
}

impl Rest {
    /// None when it is over. One that was brought along cost no order.
    fn of(
        renewal: &Renewal,
        retold: &Domain,
        certificate: &CertificateSummary,
        now: Timestamp,
    ) -> Option<Self> {
        if certificate.directory == "imported" {
            return None;
        }
        // What a clock that was ahead stored is no later than what came of it.
        let since = retold.certificate_since.unwrap_or(retold.entered_at).min(retold.entered_at);
        let until = renewal.earliest(certificate, since);
        (now < until).then_some(Self { since, until })
    }

    fn note(&self, certificate: &CertificateSummary) -> Note {
        let Self { since, until } = self;
        let CertificateSummary { not_before, not_after, .. } = certificate;
        let detail = format!(
            "its certificate came at {since}, valid from {not_before} to {not_after}, and is to be renewed already; it is used until \
             {until} before another one is ordered"
        );
        Note::new(Note::RENEWAL_PUT_OFF, detail)
    }
}

/// In the last tenth of its life nothing is left alone for long: the sweep would take it for forgotten.
fn in_time(outcome: Outcome, certificate: &CertificateSummary, now: Timestamp) -> Outcome {
    let renew_by = certificate.not_after.minus(certificate.lifetime() / 10);
    let latest = renew_by.max(now.plus(NEAR_THE_END));
    match outcome {
        Outcome::RenewalLater { look_at } => Outcome::RenewalLater { look_at: look_at.min(latest) },
        Outcome::RenewalPlanned { look_at, note } => {
            Outcome::RenewalPlanned { look_at: look_at.min(latest), note }
        }
        other => other,
    }
}

/// What the CA has to say of its window, for people.
fn explained(asked: &Asked) -> Option<Note> {
    let (at, url) = (asked.at?, asked.explained_at.as_ref()?);
    let detail = format!("The CA would like it renewed at {at}, see {url}");
    Some(Note::new(Note::RENEWAL_EXPLAINED, detail))
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
    asked: &Asked,
) -> Verdict {
    let window = asked.at.and_then(|at| sane(at, certificate));
    let due_at = window.unwrap_or(by_age);
    if now >= due_at {
        return Verdict::Due { by_window: window.is_some() };
    }
    Verdict::Later(due_at.min(asked.again_at.max(now.plus(Duration::from_secs(60)))))
}

/// A window that leaves less than a tenth of the life is not one to rely on.
fn sane(at: Timestamp, certificate: &CertificateSummary) -> Option<Timestamp> {
    (at <= certificate.not_after.minus(certificate.lifetime() / 10)).then_some(at)
}

async fn ask(shared: &Shared, domain: &Domain, chain_pem: &str, now: Timestamp) -> Asked {
    let renewal = &shared.config.policy.renewal;
    let unsaid = |wait| Asked { at: None, again_at: now.plus(wait), explained_at: None };
    if !shared.is_from_our_ca(domain) {
        return unsaid(renewal.longest_look);
    }
    match shared.ca.renewal_window(chain_pem).await {
        Ok(Some(window)) => {
            let (shortest, longest) = ASK_BETWEEN;
            let wait = window.retry_after.unwrap_or(renewal.ask_every).clamp(shortest, longest);
            // Those who asked together do not ask together for ever.
            let again_at = share(domain, now.plus(wait), now.plus(wait + wait / 10));
            let at = share(domain, window.start, window.end);
            Asked { at: Some(at), again_at, explained_at: window.explanation_url }
        }
        Ok(None) => unsaid(DAY),
        Err(error) => {
            tracing::debug!(domain = %domain.name, error = &error as &dyn std::error::Error, "the renewal window is not known");
            unsaid(ASK_AGAIN)
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
    use crate::samples::now;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn certificate(from: i64, to: i64) -> CertificateSummary {
        CertificateSummary {
            serial: String::new(),
            sha256: String::new(),
            not_before: at(from),
            not_after: at(to),
            issuer: String::new(),
            directory: String::new(),
        }
    }

    /// At second 100 of a certificate that ends at second 100,000, and by its age is due at 60,000.
    fn verdict(window: Option<i64>, again: i64) -> Verdict {
        let asked = Asked { at: window.map(at), again_at: at(again), explained_at: None };
        super::verdict(at(100), &certificate(0, 100_000), at(60_000), &asked)
    }

    #[test]
    fn a_jump_of_the_clock_puts_a_renewal_off_for_a_day_and_no_longer() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert_eq!(doubt(true, false, hours(1_000)), Some(SETTLES));
        assert_eq!(doubt(false, true, hours(1)), Some(hours(23)));
        assert_eq!(doubt(false, true, hours(24)), None);
        assert_eq!(doubt(false, false, hours(1)), None);
    }

    fn later(moment: i64) -> Verdict {
        Verdict::Later(at(moment))
    }

    #[test]
    fn a_window_in_the_past_means_now() {
        assert_eq!(verdict(Some(50), 500), Verdict::Due { by_window: true });
    }

    #[test]
    fn a_window_to_come_decides_and_the_ca_says_when_to_ask_again() {
        assert_eq!(verdict(Some(1_000), 500), later(500));
        assert_eq!(verdict(Some(1_000), 5_000), later(1_000));
        assert_eq!(verdict(Some(80_000), 79_000), later(79_000));
        assert_eq!(verdict(Some(1_000), 100), later(160), "not more than once a minute");
    }

    #[test]
    fn a_window_that_leaves_too_little_is_not_kept_to() {
        assert_eq!(verdict(Some(90_001), 99_000), later(60_000));
    }

    #[test]
    fn without_a_window_the_age_decides_and_the_ca_is_asked_again() {
        assert_eq!(verdict(None, 3_700), later(3_700));
        assert_eq!(verdict(None, 70_000), later(60_000));
        let asked = Asked { at: None, again_at: at(70_000), explained_at: None };
        let due = super::verdict(at(60_000), &certificate(0, 100_000), at(60_000), &asked);
        assert_eq!(due, Verdict::Due { by_window: false });
    }

    /// A leaf that was backdated by 70 of its 90 days.
    #[test]
    fn what_is_due_when_it_comes_is_used_all_the_same() {
        let renewal = holdfast_model::Policy::default().renewal;
        let (day, came) = (86_400, now());
        let at = |days: i64| at(came.as_micros() / 1_000_000 + days * day);
        let old =
            CertificateSummary { not_before: at(-70), not_after: at(20), ..certificate(0, 1) };
        let rest = |changed: Domain, now: Timestamp| {
            let certificate = changed.certificate.clone().unwrap_or_else(|| old.clone());
            Rest::of(&renewal, &changed, &certificate, now).map(|rest| rest.until)
        };
        let active = || Domain {
            certificate_since: Some(came),
            entered_at: came,
            ..crate::samples::domain(holdfast_model::State::Active)
        };
        assert_eq!(rest(active(), at(1)), Some(at(9)));
        assert_eq!(rest(active(), at(9)), None);
        // A clock that was ahead when it was stored puts nothing off for longer.
        let ahead = Domain { certificate_since: Some(at(5_000)), ..active() };
        assert_eq!(rest(ahead, at(1)), Some(at(9)));
        let imported = CertificateSummary { directory: "imported".to_owned(), ..old.clone() };
        assert_eq!(rest(Domain { certificate: Some(imported), ..active() }, at(1)), None);
    }

    #[test]
    fn near_its_end_nothing_is_left_alone_for_long() {
        let look = |now: i64, look_at: i64| {
            let later = Outcome::RenewalLater { look_at: at(look_at) };
            in_time(later, &certificate(0, 100_000), at(now)).not_before().unwrap()
        };
        assert_eq!(look(100, 50_000), at(50_000));
        assert_eq!(look(100, 95_000), at(90_000));
        assert_eq!(look(95_000, 99_000), at(96_800));
    }

    #[test]
    fn while_edges_are_waited_for_the_ca_is_asked_at_its_pace() {
        let (every, minute) = (Duration::from_secs(6 * 3600), Duration::from_secs(60));
        let asks = (0..2 * 24 * 60).filter(|at| asks_in(minute * *at, every)).count();
        assert_eq!(asks, 7 * 15, "the first minutes of seven stretches");
        assert!(!asks_in(minute, every));
    }
}
