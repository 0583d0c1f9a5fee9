//! What `explain` says follows from what is known now: a table of situations, and what holds for each combination of them.

use holdfast_model::{
    Domain, EdgeFacts, Explanation, Facts, Note, QueueFacts, QueuePlace, State, Timestamp, Wanted,
    Who, explain,
};

use crate::kit::{certificate, domain};

const REQUIRED: &str = "CNAME shop.example.com → edge.example.net";

/// What DNS says now.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Dns {
    Right,
    Wrong(&'static str),
    /// Our own resolvers are silent.
    Blind,
    /// The look took too long.
    Unknown,
}

const LOOKS: [Dns; 7] = [
    Dns::Right,
    Dns::Wrong("dns-nxdomain"),
    Dns::Wrong("dns-cname-elsewhere"),
    Dns::Wrong("dns-stale-aaaa"),
    Dns::Wrong("dns-servfail"),
    Dns::Blind,
    Dns::Unknown,
];

const ERRORS: [Option<&str>; 18] = [
    None,
    Some("dns-nxdomain"),
    Some("dns-servfail"),
    Some("dns-resolver-unreachable"),
    Some("acme-dns"),
    Some("acme-caa"),
    Some("acme-connection"),
    Some("acme-unauthorized"),
    Some("acme-rejected-identifier"),
    Some("acme-rate-limited"),
    Some("acme-server"),
    Some("acme-terms"),
    Some("acme-account-unusable"),
    Some("ca-unreachable"),
    Some("edge-refused"),
    Some("no-live-edge"),
    Some("timed-out"),
    Some("a-code-of-a-later-release"),
];

/// The mode of `[edge]`, and what the edges say.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Edges {
    None,
    Applying,
    Serving,
    Unread,
    Stored,
}

const EDGES: [Edges; 5] =
    [Edges::None, Edges::Applying, Edges::Serving, Edges::Unread, Edges::Stored];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Queue {
    Unread,
    Moving,
    Budget,
    Paused(&'static str),
}

const QUEUES: [Queue; 6] = [
    Queue::Unread,
    Queue::Moving,
    Queue::Budget,
    Queue::Paused("acme-rate-limited: too many new orders"),
    Queue::Paused("acme-server: the CA said 500"),
    Queue::Paused("acme-terms: the terms are not agreed to"),
];

fn later() -> Timestamp {
    Timestamp::from_seconds(1_900_000_000)
}

fn note(code: &'static str) -> Note {
    Note::new(code, format!("what is known of {code}."))
}

fn stands(state: State, error: Option<&'static str>) -> Domain {
    let mut domain = domain(state);
    domain.last_error = error.map(note);
    // As the machine leaves it: nothing is planned for what was given up or is queued.
    domain.next_attempt_at =
        (!matches!(state, State::Failed | State::AcmeOrdering)).then_some(later());
    if matches!(state, State::Active | State::RenewalDue | State::Renewing) {
        domain.certificate = Some(certificate(domain.entered_at, 90));
    }
    domain
}

fn known(dns: Dns, queue: Queue, edges: Edges) -> Facts {
    let place = |paused_until, pause_reason: Option<&str>, next_slot_at| QueueFacts {
        place: QueuePlace::At(12),
        paused_until,
        pause_reason: pause_reason.map(ToOwned::to_owned),
        next_slot_at,
    };
    let (live, behind) = match edges {
        Edges::Applying => (2, 1),
        Edges::Serving => (2, 0),
        Edges::None | Edges::Unread | Edges::Stored => (0, 0),
    };
    let mut facts = Facts {
        dns: match dns {
            Dns::Wrong(code) => Some(note(code)),
            Dns::Blind => Some(note("dns-resolver-unreachable")),
            Dns::Right | Dns::Unknown => None,
        },
        dns_is_right: dns == Dns::Right,
        queue: match queue {
            Queue::Unread => None,
            Queue::Moving => Some(place(None, None, None)),
            Queue::Budget => Some(place(None, None, Some(later()))),
            Queue::Paused(why) => Some(place(Some(later()), Some(why), None)),
        },
        edges_unknown: edges == Edges::Unread,
        stored_only: edges == Edges::Stored,
        required: REQUIRED.into(),
        ..Facts::default()
    };
    let serving = live - behind;
    facts.edges = EdgeFacts { live, behind, serving, broken: None };
    facts
}

/// One row: what is said, who must act, and what the fix must name.
#[track_caller]
fn check(domain: &Domain, facts: &Facts, cause: &str, who: Who, names: &[&str]) {
    let answer = explain(domain, facts);
    assert_eq!((answer.cause.as_str(), answer.who), (cause, who), "{answer:?}");
    for named in names {
        assert!(answer.fix.contains(named), "the fix does not name `{named}`: {answer:?}");
    }
}

#[track_caller]
fn check_dns(state: State, error: Option<&'static str>, dns: Dns, expected: (&str, Who, &[&str])) {
    let facts = known(dns, Queue::Moving, Edges::Serving);
    check(&stands(state, error), &facts, expected.0, expected.1, expected.2);
}

#[test]
fn dns_that_was_mended_is_nobodys_fault() {
    use State::{AcmeChallengeFailed, DnsVerificationFailed, DnsVerifying, Failed};
    let at = later().to_string();
    let soon: (&str, Who, &[&str]) =
        ("dns-mended", Who::Holdfast, &["domain retry shop.example.com", &at]);
    check_dns(DnsVerifying, Some("dns-nxdomain"), Dns::Right, soon);
    check_dns(DnsVerifying, Some("dns-resolver-unreachable"), Dns::Right, soon);
    check_dns(DnsVerificationFailed, Some("dns-nxdomain"), Dns::Right, soon);
    check_dns(DnsVerificationFailed, Some("timed-out"), Dns::Right, soon);
    check_dns(AcmeChallengeFailed, Some("dns-nxdomain"), Dns::Right, soon);
    check_dns(AcmeChallengeFailed, Some("acme-dns"), Dns::Right, soon);
    let by_hand: (&str, Who, &[&str]) =
        ("dns-mended", Who::Operator, &["domain retry shop.example.com"]);
    check_dns(Failed, Some("dns-nxdomain"), Dns::Right, by_hand);
    check_dns(Failed, Some("acme-dns"), Dns::Right, by_hand);
    let going: (&str, Who, &[&str]) = ("in-progress", Who::Holdfast, &["Nothing"]);
    check_dns(DnsVerifying, None, Dns::Right, going);
    check_dns(DnsVerifying, None, Dns::Unknown, going);
}

#[test]
fn dns_that_is_wrong_is_the_customers() {
    use State::{AcmeChallengeFailed, Active, DnsVerificationFailed, DnsVerifying, Failed};
    let wrong = Dns::Wrong("dns-cname-elsewhere");
    let set: (&str, Who, &[&str]) = ("dns-cname-elsewhere", Who::Customer, &["set", REQUIRED]);
    check_dns(DnsVerifying, None, wrong, set);
    check_dns(DnsVerifying, Some("dns-nxdomain"), wrong, set);
    check_dns(DnsVerificationFailed, Some("dns-nxdomain"), wrong, set);
    check_dns(AcmeChallengeFailed, Some("acme-connection"), wrong, set);
    // It is parked there while the CA makes it wait, and nothing was validated.
    let parked = domain(AcmeChallengeFailed);
    for code in ["acme-rate-limited", "ca-unreachable", "acme-paused"] {
        let parked = Domain { last_error: Some(note(code)), ..parked.clone() };
        let said = explain(&parked, &known(wrong, Queue::Unread, Edges::None));
        assert!(said.cause == code && !said.summary.contains("could not validate"), "{said:?}");
    }
    check_dns(Active, None, wrong, set);
    let retry: (&str, Who, &[&str]) =
        ("dns-cname-elsewhere", Who::Customer, &[REQUIRED, "domain retry shop.example.com"]);
    check_dns(Failed, Some("dns-nxdomain"), wrong, retry);
    check_dns(Failed, Some("acme-unauthorized"), wrong, retry);
    // Nothing newer is known than what the worker saw.
    let seen: (&str, Who, &[&str]) = ("dns-nxdomain", Who::Customer, &["set", REQUIRED]);
    check_dns(DnsVerifying, Some("dns-nxdomain"), Dns::Unknown, seen);
    check_dns(DnsVerificationFailed, Some("dns-nxdomain"), Dns::Unknown, seen);
    let servers: (&str, Who, &[&str]) =
        ("dns-servfail", Who::Customer, &["name servers of the name"]);
    check_dns(Active, None, Dns::Wrong("dns-servfail"), servers);
    let aaaa: (&str, Who, &[&str]) = ("dns-stale-aaaa", Who::Customer, &["delete the AAAA"]);
    check_dns(Active, None, Dns::Wrong("dns-stale-aaaa"), aaaa);
}

#[test]
fn a_look_that_failed_on_our_side_is_the_operators() {
    let ours: (&str, Who, &[&str]) =
        ("dns-resolver-unreachable", Who::Operator, &["[dns] resolvers"]);
    for state in [State::DnsVerifying, State::DnsVerificationFailed] {
        check_dns(state, Some("dns-nxdomain"), Dns::Blind, ours);
        check_dns(state, Some("dns-resolver-unreachable"), Dns::Unknown, ours);
    }
    check_dns(State::Active, None, Dns::Blind, ours);
    check_dns(State::Failed, Some("dns-nxdomain"), Dns::Blind, ours);
    let reach: (&str, Who, &[&str]) =
        ("acme-connection", Who::Operator, &["/.well-known/acme-challenge/"]);
    check_dns(State::AcmeChallengeFailed, Some("acme-connection"), Dns::Blind, reach);
}

#[test]
fn the_queue_names_who_keeps_it_waiting() {
    let domain = stands(State::AcmeOrdering, None);
    let ask = |queue, cause, who, names: &[&str]| {
        check(&domain, &known(Dns::Unknown, queue, Edges::Serving), cause, who, names);
    };
    ask(Queue::Unread, "in-progress", Who::Holdfast, &["Nothing"]);
    ask(Queue::Moving, "in-progress", Who::Holdfast, &["Nothing"]);
    ask(Queue::Budget, "order-budget", Who::Ca, &["Nothing"]);
    ask(QUEUES[3], "ca-asked-to-wait", Who::Ca, &["Nothing"]);
    ask(QUEUES[4], "acme-server", Who::Ca, &["Nothing", "status page"]);
    ask(QUEUES[5], "acme-terms", Who::Operator, &["[acme]"]);
}

#[test]
fn where_others_serve_nothing_is_claimed_of_serving() {
    let facts = known(Dns::Right, Queue::Unread, Edges::Stored);
    let ask = |state, error, cause, who, names: &[&str]| {
        let domain = stands(state, error);
        check(&domain, &facts, cause, who, names);
        explain(&domain, &facts).summary
    };
    let said = ask(State::Active, None, "active", Who::Nobody, &["Nothing"]);
    assert!(said.contains("stored") && said.contains("mode"), "{said}");
    ask(State::CertificateDeploying, None, "in-progress", Who::Holdfast, &["Nothing"]);
    let refused = Some("edge-refused");
    ask(State::CertificateDeploymentFailed, refused, "in-progress", Who::Holdfast, &["Nothing"]);
    let mut leaving = stands(State::Active, None);
    leaving.removing_since = Some(leaving.entered_at);
    assert!(!explain(&leaving, &facts).summary.contains("edges"));
}

#[test]
fn edges_that_could_not_be_read_are_not_called_dead() {
    let facts = known(Dns::Right, Queue::Unread, Edges::Unread);
    let deploying = stands(State::CertificateDeploying, None);
    check(&deploying, &facts, "in-progress", Who::Holdfast, &["Nothing"]);
    let answer = explain(&stands(State::Active, None), &facts);
    assert!(!answer.summary.contains("is served"), "{answer:?}");
}

#[test]
fn a_retry_that_was_asked_for_needs_nobody_else() {
    for state in [State::Failed, State::DnsVerificationFailed, State::AcmeOrderFailed] {
        let mut domain = stands(state, Some("dns-nxdomain"));
        domain.wanted = Some(Wanted::Retry);
        let facts = known(Dns::Wrong("dns-nxdomain"), Queue::Unread, Edges::Serving);
        check(&domain, &facts, "in-progress", Who::Holdfast, &["Nothing"]);
    }
}

/// Each state × cause × what DNS says × queue × edges and mode.
#[test]
fn what_is_said_agrees_with_what_is_known() {
    for &state in State::ALL {
        for error in ERRORS {
            let domain = stands(state, error);
            for dns in LOOKS {
                for edges in EDGES {
                    for queue in QUEUES {
                        let answer = explain(&domain, &known(dns, queue, edges));
                        let about = format!("{state} {error:?} {dns:?} {edges:?} {queue:?}");
                        hold(&domain, dns, edges, &answer)
                            .unwrap_or_else(|why| panic!("{about}: {why}: {answer:?}"));
                    }
                }
            }
        }
    }
}

fn hold(domain: &Domain, dns: Dns, edges: Edges, answer: &Explanation) -> Result<(), &'static str> {
    let Explanation { summary, cause, fix, who, .. } = answer;
    let rule = |holds: bool, why| if holds { Ok(()) } else { Err(why) };
    rule(fix.ends_with('.') && !fix.contains(".."), "the fix is no sentence")?;
    rule(!fix.contains(".;") && !summary.contains(".."), "sentences run together")?;
    rule(fix.matches("by itself").count() < 2, "the fix says the same twice")?;
    rule(summary.contains("shop.example.com"), "the name is missing")?;
    let by_dns = cause.starts_with("dns-") && cause != "dns-mended";
    if dns == Dns::Right {
        rule(!by_dns, "DNS is blamed, which is right")?;
        rule(*who != Who::Customer || cause == "acme-caa", "the customer has done all")?;
    }
    if dns == Dns::Blind {
        let theirs = ["acme-caa", "acme-dns"].contains(&cause.as_str());
        rule(*who != Who::Customer || theirs, "our silence is blamed on the customer")?;
    }
    if let Dns::Wrong(code) = dns {
        rule(!by_dns || cause == code, "what was seen before hides what is seen now")?;
        rule(cause != "dns-mended", "it is not")?;
    }
    if *who == Who::Customer {
        rule(fix.contains("Ask the customer"), "what the customer must do is missing")?;
    }
    if matches!(who, Who::Nobody | Who::Holdfast) {
        rule(fix.starts_with("Nothing"), "somebody must act")?;
    }
    if domain.state == State::Failed {
        rule(matches!(who, Who::Operator | Who::Customer), "it does not go on by itself")?;
        rule(fix.contains("holdfast domain retry shop.example.com"), "the way out is missing")?;
        rule(!fix.contains("tried again by itself"), "it is not")?;
    }
    if matches!(edges, Edges::Stored | Edges::Unread) {
        rule(!summary.contains("is served"), "who serves is not known")?;
        rule(cause != "no-live-edge" || domain.last_error.is_some(), "edges are not known")?;
    }
    Ok(())
}
