//! The life of a domain that has a certificate: when it is looked at, when it is renewed, when it is given up.

use std::time::Duration;

use holdfast_model::{
    CertificateSummary, Domain, DomainId, Note, Outcome, OutcomeKind, Policy, State, Timestamp,
    Wanted, answers, asked, decide,
};
use proptest::prelude::*;

use crate::{
    kit::{apply, certificate, domain, outcome},
    machine::walk,
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn hopeless() -> Outcome {
    Outcome::hopeless("acme-caa", "a CAA record forbids it")
}

/// In this state, with a certificate of 90 days that has this long to live.
fn renewing(state: State, left: Duration) -> Domain {
    let mut domain = domain(state);
    let end = domain.entered_at.plus(left);
    domain.certificate = Some(certificate(end.minus(DAY * 90), 90));
    domain.certificate_since = Some(end.minus(DAY * 90));
    domain
}

/// Days after `from` on which it is given up, if each try meets this.
fn given_up_after(mut domain: Domain, outcome: &Outcome, from: Timestamp) -> u64 {
    let mut tries = 0;
    while domain.state != State::Failed {
        walk(&mut domain, std::slice::from_ref(outcome));
        if domain.state.is_phase_failure() {
            let wait = domain.next_attempt_at.unwrap().since(domain.entered_at);
            assert!(wait <= DAY * 6 / 5, "not more seldom than daily: {wait:?}");
            walk(&mut domain, &[Outcome::TimeToRetry]);
        }
        tries += 1;
        assert!(tries < 1_000, "never given up");
    }
    domain.entered_at.since(from).as_secs() / DAY.as_secs()
}

#[test]
fn what_no_try_can_mend_ends_no_renewal() {
    for state in [State::AcmeOrdering, State::AcmeChallengePrepared, State::CertificateDownloading]
    {
        let mut domain = renewing(state, DAY * 30);
        domain.order_open = true;
        let passed = walk(&mut domain, &[hopeless(), Outcome::TimeToRetry]);
        assert!(passed.get(1).unwrap().is_phase_failure(), "{passed:?}");
        assert_eq!(domain.state, State::AcmeOrdering, "{state}: with a new order");
    }
    let late = given_up_after(
        renewing(State::AcmeOrdering, DAY * 30),
        &hopeless(),
        domain(State::Initial).entered_at,
    );
    assert!((37..=38).contains(&late), "{late}");
}

#[test]
fn what_no_try_can_mend_ends_a_first_order() {
    let mut first = domain(State::AcmeOrdering);
    walk(&mut first, &[hopeless()]);
    assert_eq!((first.state, first.next_attempt_at), (State::Failed, None));
}

/// A control plane that was off for 98 days meets one passing fault.
#[test]
fn the_first_failure_after_a_long_absence_is_not_final() {
    let mut late = renewing(State::AcmeOrdering, Duration::ZERO);
    late.certificate = Some(certificate(late.entered_at.minus(DAY * 98), 90));
    for failure in [outcome(OutcomeKind::Trouble, None), hopeless()] {
        let days = given_up_after(late.clone(), &failure, late.entered_at);
        assert!((7..=8).contains(&days), "{days}");
    }
    // Also where it had failed before: nothing was tried meanwhile.
    let failure = outcome(OutcomeKind::Trouble, None);
    let mut away = renewing(State::AcmeOrdering, DAY);
    walk(&mut away, std::slice::from_ref(&failure));
    let now = away.entered_at.plus(DAY * 60);
    let back = decide(&away, &Outcome::TimeToRetry, &Policy::default(), now);
    assert_eq!(back.state, State::AcmeOrdering);
    apply(&mut away, &back);
    walk(&mut away, &[failure.clone(), Outcome::TimeToRetry]);
    assert_eq!(away.state, State::AcmeOrdering, "the absence counts at no later try either");
    let days = given_up_after(away, &failure, now);
    assert!((6..=8).contains(&days), "{days}");
}

/// The same for a name whose record is still awaited.
#[test]
fn a_name_under_watch_is_not_given_up_for_a_long_absence() {
    for first in [OutcomeKind::DnsNotPointed, OutcomeKind::DnsSilent] {
        let mut away = domain(State::DnsVerificationFailed);
        away.attempt = 3;
        let back = away.entered_at.plus(DAY * 60);
        let looked = decide(&away, &outcome(first, None), &Policy::default(), back);
        assert_eq!(looked.state, State::DnsVerificationFailed);
        apply(&mut away, &looked);
        let mut looks = 0;
        while away.state != State::Failed {
            walk(&mut away, &[outcome(OutcomeKind::DnsNotPointed, None)]);
            looks += 1;
            assert!(looks < 10_000, "never given up");
        }
        let days = away.entered_at.since(back).as_secs() / DAY.as_secs();
        assert!((6..=8).contains(&days), "{first:?}: {days}");
    }
}

#[test]
fn a_retry_gives_a_whole_ladder() {
    let mut given_up = renewing(State::Failed, Duration::ZERO);
    given_up.certificate = Some(certificate(given_up.entered_at.minus(DAY * 200), 90));
    given_up.failing_since = Some(given_up.entered_at.minus(DAY * 50));
    given_up.wanted = Some(Wanted::Retry);
    let now = given_up.entered_at;
    let retried = decide(&given_up, &Outcome::TimeToRetry, &Policy::default(), now);
    apply(&mut given_up, &retried);
    assert_eq!((given_up.state, given_up.failures), (State::AcmeOrdering, 0));
    let days = given_up_after(given_up, &outcome(OutcomeKind::Trouble, None), now);
    assert!((7..=8).contains(&days), "{days}");
}

#[test]
fn a_rung_is_a_tenth_of_what_is_left_and_a_minute_at_least() {
    for (left, longest) in
        [(DAY * 60, DAY * 6 / 5), (DAY, DAY / 10), (HOUR, HOUR / 10), (MINUTE, MINUTE * 6 / 5)]
    {
        let mut domain = renewing(State::AcmeOrdering, left);
        domain.failures = 9;
        walk(&mut domain, &[outcome(OutcomeKind::Trouble, None)]);
        let rung = domain.next_attempt_at.unwrap().since(domain.entered_at);
        assert!(rung <= longest && rung >= MINUTE, "{left:?}: {rung:?}");
    }
    // Nothing is left of it: the ladder goes on, daily.
    let mut ended = renewing(State::AcmeOrdering, Duration::ZERO);
    ended.failures = 9;
    walk(&mut ended, &[outcome(OutcomeKind::Trouble, None)]);
    assert!(ended.next_attempt_at.unwrap().since(ended.entered_at) >= DAY);
}

/// DNS took six days, the CA's queue another two: the first trouble with the CA is the first.
#[test]
fn a_phase_that_succeeded_and_the_queue_do_not_count_against_a_name() {
    let mut domain = domain(State::DnsVerificationFailed);
    domain.failing_since = Some(domain.entered_at.minus(DAY * 6));
    domain.failures = 4;
    walk(&mut domain, &[Outcome::DnsPointed]);
    assert_eq!((domain.failures, domain.failing_since), (0, None));
    let trouble = outcome(OutcomeKind::Trouble, None);
    walk(&mut domain, &[trouble.clone(), Outcome::TimeToRetry]);
    let failing_since = domain.failing_since.unwrap();
    let now = domain.entered_at.plus(DAY * 10);
    let failed = decide(&domain, &trouble, &Policy::default(), now);
    assert_eq!(failed.state, State::AcmeOrderFailed);
    assert_eq!(failed.failing_since, Some(failing_since.plus(DAY * 10)));
    assert_eq!(failed.failures, 2);
    // Waiting there is no way out of the queue, and is counted once.
    let waiting = decide(&domain, &Outcome::CaWaits, &Policy::default(), now);
    assert_eq!(waiting.failing_since, Some(failing_since));
}

/// Each try gets as far as the proof, and fails after it: that is not to be tried every minute for ever.
#[test]
fn an_order_that_gets_on_and_fails_later_climbs_the_ladder() {
    let mut domain = domain(State::AcmeOrdering);
    let start = domain.entered_at;
    let mut orders = 0;
    while domain.state != State::Failed {
        domain.order_open = true;
        let gone = outcome(OutcomeKind::OrderGone, None);
        let steps = [Outcome::OrderCreated, Outcome::AlreadyAuthorized, gone, Outcome::TimeToRetry];
        walk(&mut domain, &steps);
        orders += 1;
        assert!(orders < 20, "never given up");
    }
    assert!(domain.entered_at.since(start) >= DAY * 7);
}

#[test]
fn a_certificate_that_is_waited_for_at_the_edges_is_renewed() {
    for state in [State::CertificateDeploying, State::CertificateDeploymentFailed] {
        let mut domain = renewing(state, DAY);
        domain.failing_since = Some(domain.entered_at.minus(DAY * 40));
        domain.wanted = Some(Wanted::Renew);
        let outcome = asked(&domain, Wanted::Renew).unwrap();
        let transition = decide(&domain, &outcome, &Policy::default(), domain.entered_at);
        assert_eq!((transition.state, transition.failing_since), (State::AcmeOrdering, None));
        assert!(answers(&domain, &outcome, &transition));
    }
}

/// The order may be one that the CA cannot go on with: a person gets another.
#[test]
fn a_request_to_renew_leaves_a_failed_order() {
    for state in [State::AcmeChallengeFailed, State::CertificateDownloadFailed] {
        let mut domain = renewing(state, DAY);
        (domain.order_open, domain.wanted) = (true, Some(Wanted::Renew));
        let outcome = asked(&domain, Wanted::Renew).unwrap();
        let transition = decide(&domain, &outcome, &Policy::default(), domain.entered_at);
        assert_eq!((transition.state, transition.order_ends), (State::AcmeOrdering, true));
        assert!(answers(&domain, &outcome, &transition));
    }
}

#[test]
fn a_request_is_done_with_by_what_acted_on_it() {
    let answered = |state, wanted, outcome: &Outcome| {
        let domain = Domain { wanted, ..renewing(state, DAY) };
        let transition = decide(&domain, outcome, &Policy::default(), domain.entered_at);
        answers(&domain, outcome, &transition)
    };
    let (renew, retry) = (Some(Wanted::Renew), Some(Wanted::Retry));
    let pending = Outcome::ChallengePending { retry_after: None };
    assert!(!answered(State::AcmeOrdering, renew, &Outcome::CaWaits));
    assert!(!answered(State::AcmeChallengeValidating, renew, &pending));
    assert!(answered(State::CertificateDownloading, renew, &Outcome::CertificateIssued));
    assert!(answered(State::CertificateDownloading, None, &Outcome::CertificateIssued));
    assert!(answered(State::AcmeOrderFailed, renew, &Outcome::TimeToRetry));
    assert!(answered(State::AcmeChallengeValidating, retry, &pending));
    assert!(!answered(State::AcmeChallengeValidating, None, &pending));
    // What is given up keeps no request that nobody would ever look at.
    let given_up = Domain { wanted: renew, ..domain(State::AcmeOrdering) };
    let transition = decide(&given_up, &hopeless(), &Policy::default(), given_up.entered_at);
    assert!(answers(&given_up, &hopeless(), &transition));
}

#[test]
fn edges_that_never_report_are_asked_about_ever_more_seldom() {
    let mut domain = renewing(State::CertificateDeploying, DAY * 60);
    let pending = outcome(OutcomeKind::DeploymentPending, None);
    let start = domain.entered_at;
    let (mut looks, mut soon) = (0, 0);
    while domain.next_attempt_at.unwrap().since(start) < DAY {
        let before = domain.next_attempt_at.unwrap();
        walk(&mut domain, std::slice::from_ref(&pending));
        let wait = domain.next_attempt_at.unwrap().since(before);
        assert!((15..=720).contains(&wait.as_secs()), "{wait:?}");
        soon += u32::from(before.since(start) < MINUTE);
        looks += 1;
    }
    assert!((3..=5).contains(&soon) && looks < 200, "{soon} {looks}");
}

/// The first look, and those that follow a handler's word.
#[test]
fn a_domain_at_rest_is_looked_at_within_days_whatever_its_certificate_says() {
    let mut domain = domain(State::CertificateDeploying);
    let now = domain.entered_at;
    let end = Timestamp::parse("9999-12-31T23:59:59Z").unwrap();
    domain.certificate = Some(CertificateSummary { not_after: end, ..certificate(now, 1) });
    let active = decide(&domain, &Outcome::DeploymentSeen, &Policy::default(), now);
    assert!(active.next_attempt_at.unwrap() <= now.plus(HOUR * 6));
    apply(&mut domain, &active);
    let far = Outcome::RenewalLater { look_at: end };
    let later = decide(&domain, &far, &Policy::default(), now);
    assert_eq!(later.next_attempt_at, Some(now.plus(DAY * 7)));
    assert!(later.hops.is_empty());
}

/// Issued together, they are not asked about together.
#[test]
fn first_looks_are_spread() {
    let mut per_hour = [0_u32; 6];
    for n in 0..600_u128 {
        let mut domain = renewing(State::CertificateDeploying, DAY * 90);
        domain.id = DomainId(uuid::Uuid::from_u128(n << 64 | n));
        let now = domain.entered_at;
        let active = decide(&domain, &Outcome::DeploymentSeen, &Policy::default(), now);
        let hour = active.next_attempt_at.unwrap().since(now).as_secs() / 3_600;
        per_hour[usize::try_from(hour).unwrap().min(5)] += 1;
    }
    assert!(per_hour.iter().all(|count| (50..=150).contains(count)), "{per_hour:?}");
}

#[test]
fn what_was_said_of_an_active_domain_ends_with_the_next_look() {
    let mut domain = renewing(State::Active, DAY * 60);
    domain.last_error = Some(Note::new(Note::RENEWAL_PUT_OFF, "it came late"));
    let later = Outcome::RenewalLater { look_at: domain.entered_at };
    walk(&mut domain, &[later]);
    assert_eq!(domain.last_error, None);
}

proptest! {
    /// Whatever a CA writes into certificates: renewed by themselves, one name takes no more than a few orders in a tenth of their
    /// life, or in a day, whichever is shorter.
    #[test]
    fn orders_of_a_name_are_bounded_by_the_lives_of_its_certificates(
        starts in -4_000_000_000_i64..300_000_000_000, life in -1_000_i64..400_000_000_000, since in 0_i64..4_000_000_000,
    ) {
        let certificate = CertificateSummary {
            not_before: Timestamp::from_seconds(starts),
            not_after: Timestamp::from_seconds(starts.saturating_add(life)),
            ..certificate(Timestamp::from_seconds(0), 1)
        };
        let since = Timestamp::from_seconds(since);
        let gap = Policy::default().renewal.earliest(&certificate, since).since(since);
        prop_assert!(gap >= Duration::from_secs(2));
        prop_assert!(gap >= (certificate.lifetime() / 10).min(DAY));
        prop_assert!(gap <= (certificate.lifetime() / 10).max(Duration::from_secs(2)));
    }
}

#[test]
fn a_certificate_that_ends_before_a_tenth_of_its_life_is_used_for_half_of_what_is_left() {
    let renewal = Policy::default().renewal;
    let now = Timestamp::from_seconds(1_800_000_000);
    let came =
        |left: u64| certificate(now.minus(DAY * 90).plus(DAY * u32::try_from(left).unwrap()), 90);
    let gap = |left: u64| renewal.earliest(&came(left), now).since(now);
    assert_eq!((gap(90), gap(20), gap(6), gap(1)), (DAY * 9, DAY * 9, DAY * 3, DAY));
}
