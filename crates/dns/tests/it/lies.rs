//! Servers that lie, hang and die: each costs the name it is about, and no other.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use holdfast_dns::{Cause, Expectation, Finding, Limits, Resolver, Verdict, Via};
use holdfast_model::Hostname;
use holdfast_testkit::dns::{Behaviour, Server, records};
use tokio::time::Instant;

use crate::subject::{NAME, expectation, limits, look, with};

const POINTED: Verdict = Verdict::Pointed { via: Via::Cname };

fn good() -> Vec<hickory_proto::rr::RData> {
    records(&["CNAME edge.holdfast.test"])
}

async fn look_at(resolver: &Resolver, name: &str) -> Finding {
    let name = Hostname::parse(name).unwrap();
    resolver.look(&Expectation { name, ..expectation() }).await
}

fn patient() -> Limits {
    Limits { query: Duration::from_secs(2), ..limits() }
}

/// As many names as are asked for at once, of which one is served like this; gives the verdicts of the others.
async fn beside(bad: Behaviour, others: &Behaviour) -> Vec<Verdict> {
    let truncates = Behaviour::Truncates(good());
    let zone = [("bad.example.com", bad), ("*.example.com", others.clone()), (NAME, truncates)];
    let server = Server::start(zone).await;
    let resolver = Resolver::new(Some(&[server.address]), limits()).unwrap();
    // A connection over TCP that were kept would be there for all of them.
    assert_eq!(look_at(&resolver, NAME).await.verdict, POINTED);
    let look_at_bad = || {
        let resolver = resolver.clone();
        tokio::spawn(async move { look_at(&resolver, "bad.example.com").await })
    };
    let bad = look_at_bad();
    let mut looks = Vec::new();
    for n in 0..8 {
        // One after the other, so that each finds whatever connection those before it have opened or given up.
        tokio::time::sleep(Duration::from_millis(100)).await;
        look_at_bad();
        let resolver = resolver.clone();
        looks.push(tokio::spawn(async move {
            look_at(&resolver, &format!("n{n}.example.com")).await.verdict
        }));
    }
    let mut verdicts = Vec::new();
    for look in looks {
        verdicts.push(look.await.unwrap());
    }
    assert_eq!(bad.await.unwrap().verdict, Verdict::NotPointed(Cause::Timeout));
    verdicts
}

#[tokio::test]
async fn a_name_whose_answer_hangs_over_tcp_delays_no_other() {
    let others = Behaviour::Truncates(good());
    assert_eq!(beside(Behaviour::TcpHangs, &others).await, [POINTED; 8]);
}

/// A server answers question by question on a connection.
#[tokio::test]
async fn a_slow_name_delays_no_other() {
    let slow = || Behaviour::Slow(Duration::from_secs(60), good());
    assert_eq!(beside(slow(), &Behaviour::Records(good())).await, [POINTED; 8]);
    assert_eq!(beside(slow(), &Behaviour::Truncates(good())).await, [POINTED; 8]);
}

#[tokio::test]
async fn a_silent_name_delays_no_other_and_the_resolver_is_not_blamed() {
    let others = Behaviour::Records(good());
    assert_eq!(beside(Behaviour::Silent, &others).await, [POINTED; 8]);
}

#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    let slow = Behaviour::Slow(Duration::from_millis(700), good());
    assert_eq!(look(&[(NAME, slow)]).await.verdict, POINTED);
}

#[tokio::test]
async fn what_answers_another_question_is_not_taken_for_the_answer() {
    for lie in [Behaviour::WrongId(good()), Behaviour::WrongQuestion("other.example.com", good())] {
        let finding = look(&[(NAME, lie.clone())]).await;
        let unreadable = Verdict::NotPointed(Cause::Unreadable);
        assert_eq!(finding.verdict, unreadable, "{lie:?}: {:?}", finding.seen);
    }
    let lie = Behaviour::OfAnother("other.example.com", good());
    assert_eq!(look(&[(NAME, lie)]).await.verdict, Verdict::NotPointed(Cause::NoRecords));
}

#[tokio::test]
async fn the_first_of_two_answers_counts() {
    let twice = Behaviour::Twice(good(), records(&["A 198.51.100.7"]));
    assert_eq!(look(&[(NAME, twice)]).await.verdict, POINTED);
}

/// Two servers of which the first is like this: gives the finding, and how long each of two looks took.
async fn first_is(first: SocketAddr) -> (Finding, [Duration; 2]) {
    let second = Server::start([(NAME, Behaviour::Records(good()))]).await;
    let resolver = Resolver::new(Some(&[first, second.address]), patient()).unwrap();
    let mut took = [Duration::ZERO; 2];
    let mut finding = None;
    for took in &mut took {
        let began = Instant::now();
        finding = Some(look_at(&resolver, NAME).await);
        *took = began.elapsed();
    }
    (finding.unwrap(), took)
}

#[tokio::test]
async fn a_resolver_that_fails_for_everything_does_not_decide_alone() {
    for code in [ResponseCode::ServFail, ResponseCode::Refused, ResponseCode::NotImp] {
        let liar = Server::start([("*", Behaviour::Fails(code, vec![]))]).await;
        let (finding, took) = first_is(liar.address).await;
        assert_eq!(finding.verdict, POINTED, "{code}: {:?}", finding.seen);
        assert!(took[1] < Duration::from_millis(500), "{took:?}");
    }
}

#[tokio::test]
async fn a_resolver_that_talks_nonsense_does_not_decide_alone() {
    let liar = Server::start([("*", Behaviour::Garbage(vec![1, 2, 3]))]).await;
    assert_eq!(first_is(liar.address).await.0.verdict, POINTED);
}

#[tokio::test]
async fn a_dead_or_slow_resolver_costs_little_and_only_once() {
    let slow = Behaviour::Slow(Duration::from_secs(60), good());
    for behaviour in [Behaviour::Silent, slow, Behaviour::TcpHangs] {
        let dead = Server::start([("*", behaviour)]).await;
        let (finding, [first, second]) = first_is(dead.address).await;
        assert_eq!(finding.verdict, POINTED, "{:?}", finding.seen);
        assert!(first < Duration::from_millis(1_500), "{first:?}");
        assert!(
            second < Duration::from_millis(500),
            "the dead one is asked first again: {second:?}"
        );
    }
}

/// Both fail for this name, so it fails; a second that is dead does not turn that into silence.
#[tokio::test]
async fn a_failure_stands_where_no_other_has_an_answer() {
    let fails = || [(NAME, Behaviour::Fails(ResponseCode::ServFail, vec![]))];
    let (one, other) = (Server::start(fails()).await, Server::start(fails()).await);
    let silent = Server::start([("*", Behaviour::Silent)]).await;
    for second in [other.address, silent.address] {
        let resolver = Resolver::new(Some(&[one.address, second]), limits()).unwrap();
        let finding = resolver.look(&expectation()).await;
        assert_eq!(finding.verdict, Verdict::NotPointed(Cause::Servfail), "{:?}", finding.seen);
    }
}

#[tokio::test]
async fn a_resolver_that_never_answers_is_told_as_such() {
    let dead = Server::start([("*", Behaviour::Silent), ("", Behaviour::Silent)]).await;
    let resolver = Resolver::new(Some(&[dead.address]), limits()).unwrap();
    let finding = resolver.look(&expectation()).await;
    assert_eq!(finding.verdict, Verdict::NotPointed(Cause::ResolverUnreachable));
}

/// Addresses cannot be compared with those of a target that does not answer: that is no fault of the customer's.
#[tokio::test]
async fn a_silent_target_is_not_the_customers_fault() {
    let server = Server::start([
        (NAME, with(&["A 203.0.113.9"])),
        ("edge.holdfast.test", Behaviour::Silent),
    ])
    .await;
    let resolver = Resolver::new(Some(&[server.address]), limits()).unwrap();
    let finding = resolver.look(&expectation()).await;
    assert_eq!(finding.verdict, Verdict::NotPointed(Cause::TargetSilent), "{:?}", finding.seen);
    assert!(finding.note().unwrap().detail.contains("our own target does not answer"));
}
