//! From every state, under every outcome, at any time: no panic, no step outside the table, and always
//! an end or a next attempt.

use std::time::Duration;

use holdfast_model::{
    Domain, Note, Outcome, OutcomeKind, Policy, Renewal, State, Timestamp, Transition, Wanted,
    asked, decide, mermaid,
};
use proptest::prelude::*;

use crate::kit::{apply, certificate, domain, outcome};

fn allowed(from: State, to: State) -> bool {
    let fault = to.is_phase_failure() && from.phase() == to.phase();
    from == to || fault || mermaid().contains(&format!("    {from} --> {to}\n"))
}

fn check(before: &Domain, transition: &Transition) {
    let mut at = before.state;
    for hop in &transition.hops {
        assert_eq!(hop.from, at, "the history has a gap");
        assert!(allowed(hop.from, hop.to), "{} -> {} is not in the table", hop.from, hop.to);
        at = hop.to;
    }
    assert_eq!(at, transition.state, "a state changed without history");
    let goes_on = transition.next_attempt_at.is_some() || transition.queued_at.is_some();
    assert_eq!(
        goes_on,
        transition.state != State::Failed,
        "{} neither ends nor goes on",
        transition.state
    );
    // Who waits for an order is queued, or deferred to a moment at which it joins the queue again.
    let ordering = transition.state == State::AcmeOrdering;
    assert!(!(transition.queued_at.is_some() && transition.next_attempt_at.is_some()));
    assert!(transition.queued_at.is_none() || ordering);
    assert!(!ordering || transition.queued_at.is_some() || transition.order_ends);
}

prop_compose! {
    fn any_domain()(
        state in prop::sample::select(State::ALL),
        attempt in prop_oneof![0u32..40, any::<u32>()],
        failures in any::<u32>(),
        entered in any::<i64>(),
        failing in proptest::option::of(any::<i64>()),
        wanted in prop::sample::select(vec![None, Some(Wanted::Retry), Some(Wanted::Renew)]),
        order_open in any::<bool>(),
        days in proptest::option::of(0u64..400),
    ) -> Domain {
        let mut domain = domain(state);
        domain.attempt = attempt;
        domain.failures = failures;
        domain.entered_at = Timestamp::from_micros(entered);
        domain.failing_since = failing.map(Timestamp::from_micros);
        domain.wanted = wanted;
        domain.order_open = order_open;
        domain.certificate = days.map(|days| certificate(domain.entered_at, days));
        domain
    }
}

proptest! {
    #[test]
    fn every_decision_is_in_the_table_and_goes_on(
        domain in any_domain(),
        kind in prop::sample::select(OutcomeKind::ALL),
        retry_after in proptest::option::of(any::<i64>()),
        now in any::<i64>(),
    ) {
        let outcome = outcome(kind, retry_after.map(Timestamp::from_micros));
        let transition = decide(&domain, &outcome, &Policy::default(), Timestamp::from_micros(now));
        check(&domain, &transition);
    }

    /// A wrong clock may have stored any moment: what was stored in the future counts from now, so
    /// every timeout ends, and a commit by a clock that was set back in between waits no longer
    /// than was decided.
    #[test]
    fn nothing_waits_for_what_was_stored_in_the_future(
        domain in any_domain(),
        kind in prop::sample::select(OutcomeKind::ALL),
        asked in proptest::option::of(any::<i64>().prop_map(Timestamp::from_micros)),
        now in 0_i64..4_000_000_000,
        back in 0_u64..4_000_000_000,
    ) {
        let now = Timestamp::from_seconds(now);
        let policy = Policy::default();
        let transition = decide(&domain, &outcome(kind, asked), &policy, now);
        prop_assert!(transition.entered_at <= now && transition.failing_since.is_none_or(|at| at <= now));
        prop_assert!(transition.queued_at.is_none_or(|at| at <= now));
        if let Some(next) = transition.next_attempt_at {
            let longest = match transition.state {
                State::Active => policy.renewal.longest_look,
                _ => policy.ladder.delay(u32::MAX) * 6 / 5,
            };
            prop_assert!(next <= now.plus(longest));
        }
        let committed = now.minus(Duration::from_secs(back));
        if let (Some(next), Some(told)) = (transition.next_attempt_at, transition.next_attempt_as_of(committed)) {
            prop_assert!(told.since(committed) <= next.since(now) && told <= next);
        }
        prop_assert_eq!(transition.next_attempt_as_of(now), transition.next_attempt_at);
    }

    #[test]
    fn no_walk_gets_stuck(kinds in prop::collection::vec(prop::sample::select(OutcomeKind::ALL), 1..60)) {
        let mut domain = domain(State::Initial);
        let mut now = domain.entered_at;
        for kind in kinds {
            let transition = decide(&domain, &outcome(kind, None), &Policy::default(), now);
            check(&domain, &transition);
            apply(&mut domain, &transition);
            now = domain.next_attempt_at.unwrap_or(now).max(now);
        }
    }

    #[test]
    fn the_same_input_decides_the_same(domain in any_domain(), kind in prop::sample::select(OutcomeKind::ALL)) {
        let now = domain.entered_at.plus(Duration::from_secs(1));
        let outcome = outcome(kind, None);
        let once = decide(&domain, &outcome, &Policy::default(), now);
        prop_assert_eq!(once, decide(&domain, &outcome, &Policy::default(), now));
    }
}

/// Feeds outcomes at the times the machine asked for; gives the states passed through.
pub(crate) fn walk(domain: &mut Domain, outcomes: &[Outcome]) -> Vec<State> {
    let mut passed = vec![domain.state];
    for outcome in outcomes {
        let now = domain.next_attempt_at.unwrap_or(domain.entered_at).max(domain.entered_at);
        let transition = decide(domain, outcome, &Policy::default(), now);
        passed.extend(transition.hops.iter().map(|hop| hop.to));
        apply(domain, &transition);
    }
    passed
}

#[test]
fn the_happy_path_passes_every_state_in_order() {
    let mut domain = domain(State::Initial);
    let passed = walk(
        &mut domain,
        &[
            Outcome::Accepted,
            Outcome::DnsPointed,
            Outcome::OrderCreated,
            Outcome::ChallengeReady,
            Outcome::ChallengeAccepted,
            Outcome::ChallengeValid,
            Outcome::CertificateIssued,
            Outcome::DeploymentSeen,
        ],
    );
    let names: Vec<_> = passed.iter().map(|state| state.as_str()).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    Initial
    DnsVerifying
    DnsVerified
    AcmeOrdering
    AcmeOrderCreated
    AcmeChallengePreparing
    AcmeChallengePrepared
    AcmeChallengeValidating
    AcmeChallengeValidated
    CertificateDownloading
    CertificateDownloaded
    CertificateDeploying
    CertificateDeployed
    Active
    ");
}

#[test]
fn dns_is_tried_five_times_then_watched_for_seven_days() {
    let mut domain = domain(State::DnsVerifying);
    let start = domain.entered_at;
    let wrong = outcome(OutcomeKind::DnsNotPointed, None);
    let mut looks = 0;
    while domain.state == State::DnsVerifying {
        walk(&mut domain, std::slice::from_ref(&wrong));
        looks += 1;
    }
    assert_eq!((looks, domain.state), (5, State::DnsVerificationFailed));
    assert!(domain.entered_at.since(start) < Duration::from_secs(600));
    let mut waits = Vec::new();
    while domain.state == State::DnsVerificationFailed {
        let before = domain.next_attempt_at.unwrap();
        walk(&mut domain, std::slice::from_ref(&wrong));
        waits.extend(domain.next_attempt_at.map(|next| next.since(before)));
    }
    assert_eq!(domain.state, State::Failed);
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(3600 * 6 / 5)));
    assert!(waits.len() > 150, "watched only {} times", waits.len());
}

/// A short look that nobody answered costs nothing; the long one after it counts.
#[test]
fn silence_of_a_short_look_costs_no_attempt() {
    for state in [State::DnsVerifying, State::DnsVerificationFailed] {
        let mut domain = domain(state);
        domain.attempt = 2;
        let note = Note::new(Note::DNS_SILENT, "no answer at once");
        let now = domain.entered_at;
        let silent =
            decide(&domain, &Outcome::DnsSilent { note: note.clone() }, &Policy::default(), now);
        assert_eq!((silent.state, silent.attempt, silent.hops.len()), (state, 2, 0));
        assert_eq!((silent.next_attempt_at, silent.last_error.as_ref()), (Some(now), Some(&note)));
        assert!(silent.awaits_patience());
        let wrong = decide(
            &domain,
            &outcome(OutcomeKind::DnsNotPointed, None),
            &Policy::default(),
            domain.entered_at,
        );
        assert_eq!((wrong.attempt, wrong.awaits_patience()), (3, false));
    }
}

#[test]
fn validation_ends_after_thirty_attempts_or_five_minutes() {
    let pending = Outcome::ChallengePending { retry_after: None };
    let mut fast = domain(State::AcmeChallengeValidating);
    fast.order_open = true;
    let passed = walk(&mut fast, &vec![pending; 30]);
    assert_eq!(passed.iter().filter(|state| **state == State::AcmeChallengeValidating).count(), 30);
    assert_eq!((fast.state, fast.order_open), (State::AcmeChallengeFailed, true));

    let mut slow = domain(State::AcmeChallengeValidating);
    let start = slow.entered_at;
    let far =
        Outcome::ChallengePending { retry_after: Some(start.plus(Duration::from_secs(3600))) };
    walk(&mut slow, &[far.clone(), far]);
    assert_eq!(slow.state, State::AcmeChallengeFailed);
    assert_eq!(slow.entered_at, start.plus(Duration::from_secs(300)));
}

#[test]
fn waiting_for_the_ca_costs_nothing() {
    let mut domain = domain(State::AcmeOrdering);
    domain.queued_at = Some(domain.entered_at);
    let before = domain.clone();
    let passed = walk(&mut domain, &vec![Outcome::CaWaits; 1000]);
    assert_eq!(passed, [State::AcmeOrdering]);
    assert_eq!((domain.attempt, domain.failures, domain.queued_at), (0, 0, before.queued_at));
}

#[test]
fn what_the_ca_defers_leaves_the_queue_at_no_cost_and_comes_back() {
    let mut domain = domain(State::AcmeOrdering);
    let hour = Duration::from_secs(3600);
    for round in 0..100 {
        domain.queued_at = Some(domain.entered_at);
        let now = domain.next_attempt_at.unwrap();
        let note = Note::new("acme-rate-limited", "too many certificates");
        let deferred = Outcome::Deferred { note, until: now.plus(hour) };
        let transition = decide(&domain, &deferred, &Policy::default(), now);
        assert!(transition.hops.is_empty() && transition.order_ends);
        apply(&mut domain, &transition);
        let wait = domain.next_attempt_at.unwrap().since(now);
        assert!(wait >= hour && wait <= hour * 6 / 5, "{wait:?}");
        assert_eq!((domain.queued_at, domain.attempt, domain.failures), (None, 0, 0), "{round}");
        walk(&mut domain, &[Outcome::CaWaits]);
        assert!(domain.queued_at.is_some() && domain.next_attempt_at.is_none());
        domain.next_attempt_at = Some(now.plus(hour * 2));
    }
}

/// An order that is held open takes the place of another: short waits are sat out, long ones are not, and neither is a failure.
#[test]
fn a_deferral_with_an_order_open_is_parked_when_it_is_long() {
    for (seconds, parked) in [(60, false), (3600, true), (40 * 86_400, true)] {
        for (state, to) in [
            (State::AcmeChallengePreparing, State::AcmeChallengeFailed),
            (State::AcmeChallengePrepared, State::AcmeChallengeFailed),
            (State::AcmeChallengeValidating, State::AcmeChallengeFailed),
            (State::CertificateDownloading, State::CertificateDownloadFailed),
        ] {
            let mut domain = domain(state);
            domain.order_open = true;
            let until = domain.entered_at.plus(Duration::from_secs(seconds));
            let note = Note::new("acme-rate-limited", "over quota");
            walk(&mut domain, &[Outcome::Deferred { note, until }]);
            assert_eq!(domain.state, if parked { to } else { state }, "{seconds}");
            assert_eq!((domain.attempt, domain.failures, domain.failing_since), (0, 0, None));
            assert!(domain.order_open);
            let wait = domain.next_attempt_at.unwrap().since(domain.entered_at).as_secs();
            assert!(wait >= seconds.min(86_400) && wait <= seconds.min(86_400) * 6 / 5);
        }
    }
}

#[test]
fn failures_climb_the_ladder_and_a_person_resets_it() {
    let mut domain = domain(State::AcmeOrdering);
    let trouble = outcome(OutcomeKind::Trouble, None);
    let mut minutes = Vec::new();
    for _ in 0..5 {
        walk(&mut domain, std::slice::from_ref(&trouble));
        minutes.push(domain.next_attempt_at.unwrap().since(domain.entered_at).as_secs() / 60);
        walk(&mut domain, &[Outcome::TimeToRetry]);
        assert_eq!(domain.state, State::AcmeOrdering);
    }
    for (seen, rung) in minutes.iter().zip([1, 10, 100, 1440, 1440]) {
        assert!((rung..=rung * 6 / 5).contains(seen), "{minutes:?}");
    }
    walk(&mut domain, std::slice::from_ref(&trouble));
    domain.wanted = Some(Wanted::Retry);
    let outcome = asked(&domain, Wanted::Retry).unwrap();
    walk(&mut domain, &[outcome]);
    assert_eq!((domain.failures, domain.failing_since), (0, None));
}

#[test]
fn a_first_certificate_is_given_up_after_seven_days_of_failures() {
    let mut domain = domain(State::AcmeOrdering);
    let start = domain.entered_at;
    let trouble = outcome(OutcomeKind::Trouble, None);
    while domain.state != State::Failed {
        walk(&mut domain, &[trouble.clone(), Outcome::TimeToRetry]);
    }
    let days = domain.entered_at.since(start).as_secs() / 86_400;
    assert!((7..=9).contains(&days), "{days}");
}

#[test]
fn a_failing_renewal_goes_on_until_seven_days_after_expiry() {
    let mut domain = domain(State::Active);
    let end = domain.entered_at.plus(Duration::from_secs(30 * 86_400));
    domain.certificate = Some(certificate(end.minus(Duration::from_secs(90 * 86_400)), 90));
    walk(&mut domain, &[Outcome::RenewalNeeded]);
    let trouble = outcome(OutcomeKind::Trouble, None);
    while domain.state != State::Failed {
        walk(&mut domain, &[trouble.clone(), Outcome::TimeToRetry]);
    }
    let late = domain.entered_at.since(end).as_secs() / 86_400;
    assert!((7..=8).contains(&late), "{late}");
}

#[test]
fn renewal_is_in_proportion_to_the_lifetime() {
    let renewal = Policy::default().renewal;
    let day = Duration::from_secs(86_400);
    let start = Timestamp::from_seconds(0);
    let due =
        |days: u32| renewal.due_at(start, start.plus(day * days)).since(start).as_secs() / 86_400;
    assert_eq!((due(90), due(45), due(6)), (60, 30, 3));
}

#[test]
fn renewals_are_spread_whatever_the_lifetime() {
    let (hour, start) = (Duration::from_secs(3_600), Timestamp::from_seconds(0));
    for before_days in [1, 30, 45, 89] {
        let renewal = Renewal { before_days, ..Policy::default().renewal };
        for hours in [1, 24, 6 * 24, 10 * 24, 45 * 24, 90 * 24, 398 * 24] {
            let end = start.plus(hour * hours);
            let (from, until) = renewal.window(start, end);
            assert_eq!(until.since(from), hour * hours / 30, "{before_days} {hours}");
            assert!(until < end && from > start, "{before_days} {hours}");
        }
    }
}

#[test]
fn a_lost_challenge_needs_a_new_order_and_a_troubled_one_does_not() {
    let mut spent = domain(State::AcmeChallengeValidating);
    spent.order_open = true;
    walk(&mut spent, &[outcome(OutcomeKind::ChallengeInvalid, None), Outcome::TimeToRetry]);
    assert_eq!((spent.state, spent.order_open), (State::AcmeOrdering, false));

    let mut troubled = domain(State::AcmeChallengePrepared);
    troubled.order_open = true;
    walk(&mut troubled, &[outcome(OutcomeKind::Trouble, None), Outcome::TimeToRetry]);
    assert_eq!((troubled.state, troubled.order_open), (State::AcmeChallengePreparing, true));
}

/// A CA that gives no ACME answer for a hundred minutes: in every state at the CA.
#[test]
fn an_outage_of_the_ca_costs_no_attempt_no_rung_and_no_time() {
    let note = Note::new("ca-not-acme", "the CA answered with a page");
    let away = Outcome::CaUnavailable { note, retry_after: None };
    for state in [
        State::AcmeChallengePreparing,
        State::AcmeChallengePrepared,
        State::AcmeChallengeValidating,
        State::CertificateDownloading,
    ] {
        let mut domain = domain(state);
        domain.order_open = true;
        let (start, mut waits) = (domain.entered_at, Vec::new());
        loop {
            let now = domain.next_attempt_at.unwrap();
            if now.since(start) > Duration::from_secs(6_000) {
                break;
            }
            let passed = walk(&mut domain, std::slice::from_ref(&away));
            assert_eq!(passed, [state], "an outage wrote history");
            waits.push(domain.next_attempt_at.unwrap().since(now).as_secs());
        }
        assert_eq!((domain.attempt, domain.failures, domain.order_open), (0, 0, true));
        assert!(waits[0] <= 3 && waits.iter().all(|wait| *wait <= 144), "{waits:?}");
        assert!(waits.len() < 70 && waits.is_sorted_by(|a, b| *a <= b + b / 2), "{waits:?}");
        let (pending, steps) = match state {
            State::AcmeChallengeValidating => (Outcome::ChallengePending { retry_after: None }, 29),
            State::CertificateDownloading => (Outcome::OrderProcessing { retry_after: None }, 29),
            _ => continue,
        };
        walk(&mut domain, &vec![pending; steps]);
        assert_eq!(domain.state, state, "the outage used up the state's own time");
    }
}

#[test]
fn an_outage_ends_on_the_ladder_after_a_day() {
    let note = Note::new("ca-unreachable", "no route");
    let mut domain = domain(State::CertificateDownloading);
    let start = domain.entered_at;
    let far = start.plus(Duration::from_secs(90 * 86_400));
    let away = Outcome::CaUnavailable { note, retry_after: Some(far) };
    while domain.state == State::CertificateDownloading {
        walk(&mut domain, std::slice::from_ref(&away));
    }
    assert_eq!((domain.state, domain.failures), (State::CertificateDownloadFailed, 1));
    let hours = domain.entered_at.since(start).as_secs() / 3_600;
    assert!((24..=25).contains(&hours), "{hours}: the CA may not ask for a wait of months");
}

/// A CA that fails at every other request keeps nobody for ever.
#[test]
fn outages_that_come_and_go_end_too() {
    let note = Note::new("acme-server", "500");
    let mut domain = domain(State::CertificateDownloading);
    let both = [
        Outcome::CaUnavailable { note, retry_after: None },
        Outcome::OrderProcessing { retry_after: None },
    ];
    for _ in 0..400 {
        walk(&mut domain, &both);
        if domain.state != State::CertificateDownloading {
            return;
        }
    }
    panic!("it never ended");
}
