//! Every state is explained: a cause, a fix, somebody to act.

use holdfast_model::{
    CaFacts, EdgeFacts, EdgeTrouble, Facts, Note, Obstacle, QueueFacts, QueuePlace, State,
    Timestamp, WaitFacts, WaitScope, Who, explain,
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
fn what_the_ca_refuses_for_now_is_told_with_its_words_and_its_end() {
    let until = Timestamp::from_seconds(1_900_000_000);
    let ask = |scope, words: &str| {
        let mut domain = domain(State::AcmeOrdering);
        domain.last_error = Some(Note::new("acme-rate-limited", words));
        let key = scope_key(scope);
        let wait = WaitFacts { scope, key, until, words: words.to_owned() };
        explain(&domain, &Facts { wait: Some(wait), ..Facts::default() })
    };
    for &scope in WaitScope::ALL {
        let answer = ask(scope, "too many of them");
        let summary = &answer.summary;
        assert!(summary.contains("too many of them") && summary.contains("No attempt is lost"));
        assert_eq!(answer.next_attempt_at, Some(until), "{scope:?}");
        let who = if scope == WaitScope::PausedName { Who::Operator } else { Who::Ca };
        assert_eq!(answer.who, who, "{scope:?}");
    }
    let answer = ask(WaitScope::RegisteredDomain, "too many");
    assert_eq!(answer.cause, "ca-limits-registered-domain");
    assert!(answer.summary.contains("below example.com"), "{}", answer.summary);
    let answer =
        ask(WaitScope::PausedName, "paused. Please visit: https://ca.test/unpause?jwt=a.b (x)");
    assert_eq!(answer.cause, "ca-paused-name");
    assert!(answer.fix.contains("at https://ca.test/unpause?jwt=a.b,"), "{}", answer.fix);
}

fn scope_key(scope: WaitScope) -> String {
    scope.key(&domain(State::AcmeOrdering).name).to_owned()
}

/// Also where only the row can be read, and where an order is held open meanwhile.
#[test]
fn who_is_told_to_wait_says_until_when() {
    for (state, note) in [
        (State::AcmeOrdering, Note::new("acme-rate-limited", "too many")),
        (State::AcmeChallengePrepared, Note::new("acme-rate-limited", "over quota")),
        (State::CertificateDownloading, Note::new("acme-server", "busy")),
    ] {
        let mut domain = domain(state);
        domain.last_error = Some(note.clone());
        let answer = explain(&domain, &Facts::default());
        assert_eq!((answer.who, answer.cause.as_str()), (Who::Ca, note.code.as_ref()), "{state}");
        assert!(answer.summary.contains(&note.detail), "{}", answer.summary);
        assert_eq!(answer.next_attempt_at, domain.next_attempt_at);
    }
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
fn nobody_is_blamed_for_the_silence_of_a_short_look() {
    let mut domain = domain(State::DnsVerifying);
    domain.last_error = Some(Note::new(Note::DNS_SILENT, "no whole answer at once"));
    let answer = explain(&domain, &Facts::default());
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Holdfast, Note::DNS_SILENT));
}

#[test]
fn what_keeps_us_from_looking_is_the_operators() {
    for code in ["dns-resolver-unreachable", "dns-target-silent"] {
        let dns = Some(Note::new(code, "it does not answer"));
        let mut failed = domain(State::AcmeChallengeFailed);
        failed.last_error = Some(Note::new("acme-connection", "no connection"));
        for domain in [domain(State::DnsVerificationFailed), failed] {
            let facts = Facts { dns: dns.clone(), ..Facts::default() };
            assert_eq!(explain(&domain, &facts).who, Who::Operator, "{code} {}", domain.state);
        }
    }
}

#[test]
fn no_live_edge_is_the_operators() {
    let answer = explain(&domain(State::CertificateDeploying), &Facts::default());
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Operator, "no-live-edge"));
    let facts = edges(2, 1, 0, None);
    assert_eq!(explain(&domain(State::CertificateDeploying), &facts).who, Who::Holdfast);
}

fn edges(live: u32, behind: u32, serving: u32, broken: Option<bool>) -> Facts {
    let note = Note::new("edge-reload-failed", "the reload failed: exit status: 1");
    let broken = broken.map(|is_whole| EdgeTrouble { edge: "fra-1".into(), note, is_whole });
    let edges = EdgeFacts { live, behind, serving, broken };
    Facts { edges, ..Facts::default() }
}

#[test]
fn an_edge_that_is_out_of_order_is_named_with_its_words() {
    for state in [State::CertificateDeploying, State::Active] {
        for (is_whole, cause) in [(true, "edge-error"), (false, "edge-refused")] {
            let answer = explain(&domain(state), &edges(1, 0, 0, Some(is_whole)));
            assert_eq!((answer.who, answer.cause.as_str()), (Who::Operator, cause), "{state}");
            assert!(answer.summary.contains("`fra-1` says: the reload failed"), "{answer:?}");
            assert!(answer.fix.contains("holdfast edge show fra-1"), "{answer:?}");
        }
    }
    // Another one is still applying: the broken one is named, and not waited for.
    let answer = explain(&domain(State::CertificateDeploying), &edges(2, 1, 0, Some(true)));
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Holdfast, "edges-applying"));
    assert!(answer.summary.contains("`fra-1` is not waited for"), "{answer:?}");
}

#[test]
fn active_is_served_only_while_an_edge_serves_it() {
    let ask = |facts: &Facts| {
        let answer = explain(&domain(State::Active), facts);
        (answer.cause, answer.who)
    };
    let is = |cause: &str, who| (cause.to_owned(), who);
    assert_eq!(ask(&edges(2, 0, 2, None)), is("active", Who::Nobody));
    // A new edge that is still applying is no reason to act.
    assert_eq!(ask(&edges(2, 1, 1, None)), is("active", Who::Nobody));
    assert_eq!(ask(&edges(2, 0, 1, Some(true))), is("edge-error", Who::Operator));
    assert_eq!(ask(&edges(0, 0, 0, None)), is("no-live-edge", Who::Operator));
    assert_eq!(ask(&edges(1, 1, 0, None)), is("edges-applying", Who::Holdfast));
    // Where no edge was asked, nothing is said against it.
    let unread = Facts { edges_unknown: true, ..Facts::default() };
    assert_eq!(ask(&unread), is("active", Who::Nobody));
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

/// Whatever the cause: nobody waits for a try that is not planned.
#[test]
fn what_is_given_up_is_not_said_to_go_on_by_itself() {
    let codes = [
        "acme-caa",
        "acme-rejected-identifier",
        "acme-server",
        "acme-connection",
        "dns-nxdomain",
        "edge-refused",
        "x",
    ];
    for code in codes {
        let mut domain = domain(State::Failed);
        domain.next_attempt_at = None;
        domain.last_error = Some(Note::new(code, "as it was said"));
        let answer = explain(&domain, &Facts::default());
        assert!(answer.fix.contains("`holdfast domain retry shop.example.com`"), "{answer:?}");
        assert!(answer.fix.contains("is not tried by itself"), "{answer:?}");
        assert!(matches!(answer.who, Who::Operator | Who::Customer), "{answer:?}");
        assert_eq!((answer.cause.as_str(), answer.next_attempt_at), (code, None));
    }
}

#[test]
fn a_served_name_says_what_is_to_be_known_of_its_renewal() {
    let mut domain = domain(State::Active);
    let why = "the CA would like it renewed early, see https://ca.example/why";
    domain.last_error = Some(Note::new(Note::RENEWAL_EXPLAINED, why));
    let served = edges(1, 0, 1, None);
    let answer = explain(&domain, &served);
    assert!(answer.summary.contains("https://ca.example/why"), "{answer:?}");
    assert_eq!(answer.who, Who::Nobody);
    domain.last_error = Some(Note::new(Note::RENEWAL_PUT_OFF, "it came late"));
    let answer = explain(&domain, &served);
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Operator, Note::RENEWAL_PUT_OFF));
    assert!(answer.summary.contains("it came late"), "{answer:?}");
}

#[test]
fn a_poison_domain_is_named() {
    let mut domain = domain(State::DnsVerifying);
    domain.lapses = 20;
    assert_eq!(explain(&domain, &Facts::default()).cause, "claims-lapse");
}

/// As a replica noted it.
fn ca_fails() -> CaFacts {
    CaFacts {
        since: Timestamp::from_seconds(1_800_000_000),
        note: Note::parse("ca-not-acme: replica `one` says: the CA answered with a page"),
        next_attempt_at: Some(Timestamp::from_seconds(1_800_000_120)),
    }
}

#[test]
fn an_outage_of_the_ca_is_told_in_every_state_at_the_ca() {
    for state in [
        State::AcmeOrdering,
        State::AcmeOrderCreated,
        State::AcmeChallengePreparing,
        State::AcmeChallengePrepared,
        State::AcmeChallengeValidating,
        State::AcmeChallengeValidated,
        State::CertificateDownloading,
    ] {
        let queue = QueueFacts {
            place: QueuePlace::At(2),
            paused_until: None,
            pause_reason: None,
            next_slot_at: None,
        };
        let queue = (state == State::AcmeOrdering).then_some(queue);
        let facts = Facts { ca: Some(ca_fails()), queue, ..Facts::default() };
        let answer = explain(&domain(state), &facts);
        assert_eq!((answer.who, answer.cause.as_str()), (Who::Ca, "ca-not-acme"), "{state}");
        assert!(answer.summary.contains("2027-01-15T08:00:00Z"), "{}", answer.summary);
        assert!(answer.summary.contains("replica `one`"), "{}", answer.summary);
        assert!(answer.next_attempt_at.is_some());
    }
    // What this very domain met comes first.
    let mut met = domain(State::CertificateDownloading);
    met.last_error = Some(Note::new("acme-server", "the CA said 500"));
    assert_eq!(explain(&met, &Facts::default()).cause, "acme-server");
}

#[test]
fn where_the_ca_names_a_page_the_fix_is_to_open_it() {
    let note = Note::new("acme-terms", "new terms").with_link("https://ca.example/terms/2");
    let queue = QueueFacts {
        place: QueuePlace::At(1),
        paused_until: Some(Timestamp::from_seconds(1_900_000_000)),
        pause_reason: Some(note.to_string()),
        next_slot_at: None,
    };
    let facts = Facts { queue: Some(queue), ..Facts::default() };
    let answer = explain(&domain(State::AcmeOrdering), &facts);
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Operator, "acme-terms"));
    assert!(answer.fix.contains("Open https://ca.example/terms/2 and"), "{}", answer.fix);
    for text in ["a <javascript:alert(1)>", "no link", "open <https://ca.example", ">"] {
        assert_eq!(Note::new("acme-terms", text).link(), None, "{text}");
    }
}

#[test]
fn an_expired_certificate_is_not_called_served() {
    let mut domain = domain(State::Active);
    domain.certificate = Some(crate::kit::certificate(domain.entered_at, 90));
    let end = domain.certificate.as_ref().unwrap().not_after;
    let served = edges(1, 0, 1, None);
    assert_eq!(explain(&domain, &served).cause, "active");
    domain.last_error = Some(Note::new(Note::RENEWAL_PUT_OFF, "it came late"));
    let answer = explain(&domain, &Facts { now: Some(end), ..served });
    assert_eq!((answer.who, answer.cause.as_str()), (Who::Operator, "certificate-expired"));
    assert!(answer.summary.contains("visitors are refused"), "{answer:?}");
    assert!(answer.fix.contains("holdfast domain renew shop.example.com"), "{answer:?}");
}

/// Whatever keeps the next one away.
#[test]
fn that_a_certificate_has_expired_is_said_in_every_state() {
    for state in [State::AcmeOrdering, State::AcmeChallengeFailed, State::Failed] {
        let mut domain = domain(state);
        domain.certificate = Some(crate::kit::certificate(domain.entered_at, 90));
        domain.last_error = Some(Note::new("acme-unauthorized", "no"));
        let end = domain.certificate.as_ref().unwrap().not_after;
        let at = |now| explain(&domain, &Facts { now: Some(now), ..Facts::default() }).summary;
        assert!(at(end).ends_with("visitors are refused."), "{state}: {}", at(end));
        let before = end.minus(std::time::Duration::from_secs(1));
        assert!(!at(before).contains("expired"), "{state}");
    }
}
