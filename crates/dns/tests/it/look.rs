//! One look at every kind of name: pointed at us in each way, or not for each reason.

use std::net::SocketAddr;

use hickory_proto::op::ResponseCode;
use holdfast_dns::{Cause, End, Finding, Resolver, Verdict, Via};

use crate::subject::{NAME, expectation, limits, look, with};
use holdfast_testkit::dns::{Behaviour, Server, records};

#[track_caller]
fn pointed(finding: &Finding, via: Via) {
    assert_eq!(finding.verdict, Verdict::Pointed { via }, "{:?}", finding.seen);
    assert_eq!(finding.note(), None);
    assert!(finding.check().ok);
}

#[track_caller]
fn not_pointed(finding: &Finding, cause: Cause, said: &str) {
    assert_eq!(finding.verdict, Verdict::NotPointed(cause), "{:?}", finding.seen);
    let note = finding.note().unwrap();
    assert_eq!(note.code, cause.code());
    assert!(note.detail.contains(said), "{:?} does not say {said:?}", note.detail);
    assert!(!finding.check().ok);
}

#[tokio::test]
async fn a_cname_to_the_target() {
    pointed(&look(&[(NAME, with(&["CNAME edge.holdfast.test"]))]).await, Via::Cname);
}

#[tokio::test]
async fn a_cname_in_any_case() {
    pointed(&look(&[(NAME, with(&["CNAME EDGE.Holdfast.TEST"]))]).await, Via::Cname);
}

#[tokio::test]
async fn a_chain_that_reaches_the_target_question_by_question() {
    let zone = [
        (NAME, with(&["CNAME www.example.com"])),
        ("www.example.com", with(&["CNAME edge.holdfast.test"])),
    ];
    let finding = look(&zone).await;
    pointed(&finding, Via::Cname);
    assert_eq!(finding.seen.ipv4.aliases, ["www.example.com", "edge.holdfast.test"]);
}

#[tokio::test]
async fn a_chain_that_comes_whole_from_a_recursive_resolver() {
    let recursive = |texts| Behaviour::Recursive(records(texts));
    let zone = [
        (NAME, recursive(&["CNAME www.example.com"])),
        ("www.example.com", recursive(&["CNAME edge.holdfast.test"])),
    ];
    pointed(&look(&zone).await, Via::Cname);
}

#[tokio::test]
async fn addresses_that_are_ours() {
    pointed(&look(&[(NAME, with(&["A 192.0.2.1"]))]).await, Via::Address);
    pointed(&look(&[(NAME, with(&["AAAA 2001:db8::1"]))]).await, Via::Address);
    pointed(&look(&[(NAME, with(&["A 192.0.2.1", "AAAA 2001:db8::1"]))]).await, Via::Address);
}

#[tokio::test]
async fn a_flattened_cname_has_the_addresses_of_the_target() {
    pointed(&look(&[(NAME, with(&["A 203.0.113.9", "AAAA 2001:db8:9::9"]))]).await, Via::Address);
    pointed(&look(&[(NAME, with(&["A 203.0.113.9"]))]).await, Via::Address);
}

#[tokio::test]
async fn our_address_behind_the_customers_own_cname() {
    let zone =
        [(NAME, with(&["CNAME www.example.com"])), ("www.example.com", with(&["A 192.0.2.1"]))];
    pointed(&look(&zone).await, Via::Address);
}

#[tokio::test]
async fn a_name_that_does_not_exist() {
    not_pointed(
        &look(&[]).await,
        Cause::NxDomain,
        "expected a CNAME to edge.holdfast.test or the addresses 192.0.2.1, 2001:db8::1; the name does not exist",
    );
}

#[tokio::test]
async fn a_name_without_records() {
    not_pointed(&look(&[(NAME, with(&[]))]).await, Cause::NoRecords, "no CNAME, A or AAAA record");
}

#[tokio::test]
async fn a_cname_to_somebody_else() {
    let zone =
        [(NAME, with(&["CNAME old.example.net"])), ("old.example.net", with(&["A 198.51.100.7"]))];
    not_pointed(
        &look(&zone).await,
        Cause::CnameElsewhere,
        "leads to old.example.net, which has the address 198.51.100.7",
    );
}

#[tokio::test]
async fn a_cname_to_a_name_that_is_gone() {
    let zone = [(NAME, with(&["CNAME old.example.net"]))];
    not_pointed(
        &look(&zone).await,
        Cause::CnameElsewhere,
        "leads to old.example.net, which does not exist",
    );
    let zone = [(NAME, Behaviour::Recursive(records(&["CNAME old.example.net"])))];
    not_pointed(
        &look(&zone).await,
        Cause::CnameElsewhere,
        "leads to old.example.net, which does not exist",
    );
}

#[tokio::test]
async fn an_address_of_somebody_else() {
    not_pointed(
        &look(&[(NAME, with(&["A 198.51.100.7"]))]).await,
        Cause::AddressElsewhere,
        "the address 198.51.100.7, not ours",
    );
}

#[tokio::test]
async fn one_foreign_address_beside_ours_is_named_alone() {
    let zone = [(NAME, with(&["A 192.0.2.1", "A 198.51.100.7"]))];
    not_pointed(
        &look(&zone).await,
        Cause::AddressElsewhere,
        "it has the address 198.51.100.7, not ours",
    );
}

#[tokio::test]
async fn a_stale_aaaa_beside_a_good_a() {
    let zone = [(NAME, with(&["A 192.0.2.1", "AAAA 2001:db8:bad::1"]))];
    not_pointed(
        &look(&zone).await,
        Cause::StaleAaaa,
        "its AAAA record has the address 2001:db8:bad::1",
    );
}

#[tokio::test]
async fn a_stale_aaaa_beside_a_good_cname_that_a_broken_server_gives_only_for_a() {
    let split = Behaviour::Split(
        records(&["CNAME edge.holdfast.test"]),
        records(&["AAAA 2001:db8:bad::1"]),
    );
    not_pointed(&look(&[(NAME, split)]).await, Cause::StaleAaaa, "2001:db8:bad::1");
}

#[tokio::test]
async fn a_loop_question_by_question() {
    let zone = [
        (NAME, with(&["CNAME a.example.com"])),
        ("a.example.com", with(&["CNAME shop.example.com"])),
    ];
    not_pointed(
        &look(&zone).await,
        Cause::CnameLoop,
        "in a circle: shop.example.com → a.example.com → shop.example.com",
    );
}

#[tokio::test]
async fn a_name_that_is_its_own_alias() {
    not_pointed(
        &look(&[(NAME, with(&["CNAME shop.example.com"]))]).await,
        Cause::CnameLoop,
        "circle",
    );
}

#[tokio::test]
async fn a_loop_in_one_answer() {
    let recursive = |texts| Behaviour::Recursive(records(texts));
    let zone = [
        (NAME, recursive(&["CNAME a.example.com"])),
        ("a.example.com", recursive(&["CNAME shop.example.com"])),
    ];
    not_pointed(&look(&zone).await, Cause::CnameLoop, "circle");
}

#[tokio::test]
async fn a_loop_that_a_recursive_resolver_reports_as_servfail() {
    let failing = |texts| Behaviour::Fails(ResponseCode::ServFail, records(texts));
    let zone = [
        (NAME, failing(&["CNAME a.example.com"])),
        ("a.example.com", failing(&["CNAME shop.example.com"])),
    ];
    not_pointed(&look(&zone).await, Cause::CnameLoop, "circle");
}

#[tokio::test]
async fn a_chain_without_an_end() {
    let names: Vec<_> = (0..40).map(|n| format!("n{n}.example.com")).collect();
    let mut zone: Vec<_> = names
        .windows(2)
        .map(|pair| (pair[0].as_str(), with(&[&format!("CNAME {}", pair[1])])))
        .collect();
    zone.push((NAME, with(&["CNAME n0.example.com"])));
    let finding = look(&zone).await;
    not_pointed(
        &finding,
        Cause::ChainTooLong,
        "too many CNAMEs in a row: shop.example.com → n0.example.com",
    );
    assert_eq!(finding.seen.ipv4.aliases.len(), limits().chain + 1);
}

#[tokio::test]
async fn name_servers_that_fail() {
    let zone = [(NAME, Behaviour::Fails(ResponseCode::ServFail, vec![]))];
    not_pointed(
        &look(&zone).await,
        Cause::Servfail,
        "the name servers of shop.example.com fail (SERVFAIL)",
    );
    let zone = [(NAME, Behaviour::Fails(ResponseCode::NotImp, vec![]))];
    not_pointed(&look(&zone).await, Cause::Servfail, "SERVFAIL");
}

#[tokio::test]
async fn name_servers_that_refuse() {
    let zone = [(NAME, Behaviour::Fails(ResponseCode::Refused, vec![]))];
    not_pointed(&look(&zone).await, Cause::Refused, "the name servers of shop.example.com refuse");
}

#[tokio::test]
async fn name_servers_that_are_silent() {
    not_pointed(
        &look(&[(NAME, Behaviour::Silent)]).await,
        Cause::Timeout,
        "shop.example.com do not answer",
    );
}

#[tokio::test]
async fn name_servers_that_answer_no_dns() {
    let garbage = Behaviour::Garbage(vec![0x81, 0x80, 0, 1, 0, 9, 0, 0, 0, 0, 0xff]);
    not_pointed(&look(&[(NAME, garbage)]).await, Cause::Unreadable, "answer nothing readable");
}

#[tokio::test]
async fn name_servers_that_fail_behind_a_cname_are_named() {
    let zone = [(NAME, with(&["CNAME www.example.org"])), ("www.example.org", Behaviour::Silent)];
    not_pointed(
        &look(&zone).await,
        Cause::Timeout,
        "the name servers of www.example.org do not answer",
    );
}

#[tokio::test]
async fn a_resolver_that_is_not_there_is_not_the_customers_fault() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let resolver = Resolver::new(Some(&[nobody.local_addr().unwrap()]), limits()).unwrap();
    not_pointed(
        &resolver.look(&expectation()).await,
        Cause::ResolverUnreachable,
        "the resolver this replica asks",
    );
}

#[tokio::test]
async fn a_second_resolver_takes_over_from_a_silent_one() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = Server::start([(NAME, with(&["CNAME edge.holdfast.test"]))]).await;
    let servers: [SocketAddr; 2] = [nobody.local_addr().unwrap(), server.address];
    let resolver = Resolver::new(Some(&servers), limits()).unwrap();
    pointed(&resolver.look(&expectation()).await, Via::Cname);
}

#[tokio::test]
async fn a_good_a_counts_though_aaaa_fails() {
    let zone = [(NAME, with(&["A 192.0.2.1"]))];
    let mut seen = look(&zone).await.seen;
    for end in [End::Timeout, End::Servfail, End::Refused] {
        seen.ipv6.end = end;
        pointed(&Finding::new(expectation(), seen.clone()), Via::Address);
    }
}

#[tokio::test]
async fn an_answer_too_large_for_udp_is_fetched_over_tcp() {
    let zone = [(NAME, Behaviour::Truncates(records(&["CNAME edge.holdfast.test"])))];
    pointed(&look(&zone).await, Via::Cname);
}

#[tokio::test]
async fn nothing_is_remembered_between_two_looks() {
    let server = Server::start([(NAME, with(&["A 198.51.100.7"]))]).await;
    let resolver = Resolver::new(Some(&[server.address]), limits()).unwrap();
    let first = resolver.look(&expectation()).await;
    assert_eq!(first, resolver.look(&expectation()).await);
    assert!(server.questions(NAME) >= 4, "the second look asked nothing");
}

#[tokio::test]
async fn a_look_can_be_spawned_and_a_finding_kept() {
    let server = Server::start([(NAME, with(&["A 198.51.100.7"]))]).await;
    let resolver = Resolver::new(Some(&[server.address]), limits()).unwrap();
    let finding = tokio::spawn(async move { resolver.look(&expectation()).await }).await.unwrap();
    let kept = serde_json::to_string(&finding).unwrap();
    assert_eq!(serde_json::from_str::<Finding>(&kept).unwrap(), finding);
}

#[test]
fn an_empty_list_of_servers_is_refused() {
    assert!(Resolver::new(Some(&[]), limits()).is_err());
}
