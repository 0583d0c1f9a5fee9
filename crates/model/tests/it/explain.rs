//! Every state is explained: a cause, a fix, somebody to act.

use holdfast_model::{
    EdgeFacts, Facts, Note, Obstacle, QueueFacts, QueuePlace, State, Timestamp, Who, explain,
};

use crate::kit::domain;

#[test]
fn every_state_has_a_cause_and_a_fix() {
    for &state in State::ALL {
        for error in [None, Some(Note::new("acme-server", "the CA said 500"))] {
            let mut domain = domain(state);
            domain.last_error = error;
            let answer =
                explain(&domain, &Facts { required: "a CNAME".into(), ..Facts::default() });
            assert!(!answer.cause.is_empty() && answer.fix.ends_with('.'), "{state}: {answer:?}");
            assert!(answer.summary.contains("shop.example.com"), "{state}: {answer:?}");
        }
    }
}

#[test]
fn the_queue_is_the_cas_business() {
    let until = Timestamp::from_seconds(1_900_000_000);
    let ask = |reason: &str| {
        let pause_reason = Some(reason.to_owned());
        let queue = QueueFacts {
            place: QueuePlace::At(12),
            paused_until: Some(until),
            pause_reason,
            next_slot_at: None,
        };
        explain(&domain(State::AcmeOrdering), &Facts { queue: Some(queue), ..Facts::default() })
    };
    let answer = ask("acme-rate-limited: too many new orders");
    assert_eq!((answer.who, answer.next_attempt_at), (Who::Ca, Some(until)));
    assert!(
        answer.summary.contains("place 12") && answer.summary.contains("too many"),
        "{}",
        answer.summary
    );
    let answer = ask("acme-terms: the terms are not agreed to");
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Operator, "acme-terms"));
}

#[test]
fn a_wrong_record_is_the_customers() {
    let mut domain = domain(State::DnsVerificationFailed);
    domain.last_error = Some(Note::new("dns-nxdomain", "the name does not exist"));
    let facts = Facts {
        required: "CNAME shop.example.com → edge.example.net".into(),
        ..Facts::default()
    };
    let answer = explain(&domain, &facts);
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Customer, "dns-nxdomain"));
    assert!(answer.fix.contains("edge.example.net"));
}

#[test]
fn no_live_edge_is_the_operators() {
    let answer = explain(&domain(State::CertificateDeploying), &Facts::default());
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Operator, "no-live-edge"));
    let facts = Facts { edges: EdgeFacts { live: 2, behind: 1 }, ..Facts::default() };
    assert_eq!(explain(&domain(State::CertificateDeploying), &facts).who, Who::Holdfast);
}

#[test]
fn what_keeps_all_domains_from_going_on_is_the_operators() {
    let obstacle = Obstacle {
        cause: "database-disk-full".into(),
        detail: "the database cannot write: its disk is full".into(),
        fix: "Make room.".into(),
    };
    let facts = Facts { obstacle: Some(obstacle), ..Facts::default() };
    for state in [State::AcmeOrdering, State::Active, State::DnsVerificationFailed] {
        let answer = explain(&domain(state), &facts);
        assert_eq!((answer.who, answer.cause.as_str()), (Who::Operator, "database-disk-full"));
        assert!(answer.summary.contains("its disk is full"), "{}", answer.summary);
    }
}

#[test]
fn a_poison_domain_is_named() {
    let mut domain = domain(State::DnsVerifying);
    domain.lapses = 20;
    assert_eq!(explain(&domain, &Facts::default()).cause, "claims-lapse");
}
