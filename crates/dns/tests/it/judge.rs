//! Properties of the judgement over things seen and never seen.

use std::net::IpAddr;

use holdfast_dns::{
    Cause, End, Expectation, Finding, HttpAnswer, HttpReply, Seen, Verdict, Via, Walk, judge,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::subject::{NAME, OURS_V4, OURS_V6, TARGET, expectation};

fn alias() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(TARGET.to_owned()),
        Just(NAME.to_owned()),
        "[a-z]{1,8}\\.example",
        any::<String>()
    ]
}

fn address() -> impl Strategy<Value = IpAddr> {
    let ours = select(vec![OURS_V4, OURS_V6]).prop_map(|text| text.parse().unwrap());
    prop_oneof![ours, any::<IpAddr>()]
}

fn end() -> impl Strategy<Value = End> {
    select(vec![
        End::Target,
        End::Addresses,
        End::NoRecords,
        End::NxDomain,
        End::CnameLoop,
        End::ChainTooLong,
        End::Servfail,
        End::Refused,
        End::Timeout,
        End::Unreadable,
        End::ResolverUnreachable,
    ])
}

fn walk() -> impl Strategy<Value = Walk> {
    let aliases = prop::collection::vec(alias(), 0..4);
    let addresses = prop::collection::vec(address(), 0..4);
    (aliases, addresses, end()).prop_map(|(aliases, addresses, end)| Walk {
        aliases,
        addresses,
        end,
    })
}

fn http() -> impl Strategy<Value = HttpAnswer> {
    let other = any::<u16>().prop_map(HttpReply::Other);
    let reply =
        prop_oneof![Just(HttpReply::Ours), Just(HttpReply::None), Just(HttpReply::Private), other];
    (address(), reply).prop_map(|(address, reply)| HttpAnswer { address, reply })
}

fn seen() -> impl Strategy<Value = Seen> {
    let targets = prop::collection::vec(address(), 0..3);
    let http = prop::collection::vec(http(), 0..4);
    (walk(), walk(), targets, any::<bool>(), http).prop_map(
        |(ipv4, ipv6, target_addresses, target_silent, http)| Seen {
            ipv4,
            ipv6,
            target_addresses,
            target_silent,
            http,
        },
    )
}

fn is_ours(expectation: &Expectation, seen: &Seen, address: &IpAddr) -> bool {
    expectation.addresses.contains(address) || seen.target_addresses.contains(address)
}

proptest! {
    #[test]
    fn whatever_is_seen_there_is_a_verdict_and_a_sentence(seen in seen()) {
        let finding = Finding::new(expectation(), seen);
        prop_assert_eq!(finding.note().is_none(), finding.verdict.is_pointed());
        prop_assert!(!finding.check().seen.is_empty());
        if let Some(note) = finding.note() {
            prop_assert!(note.code.starts_with("dns-"));
            prop_assert!(note.detail.starts_with("expected "), "{}", note.detail);
            prop_assert!(note.detail.ends_with('.') || note.detail.ends_with('…'), "{}", note.detail);
        }
    }

    #[test]
    fn without_http_a_name_with_a_foreign_address_is_never_pointed(mut seen in seen()) {
        seen.http.clear();
        let expectation = expectation();
        let leads_away = [&seen.ipv4, &seen.ipv6].into_iter().any(|walk| {
            !walk.aliases.iter().any(|alias| alias == TARGET)
                && walk.addresses.iter().any(|address| !is_ours(&expectation, &seen, address))
        });
        if leads_away {
            prop_assert!(!judge(&expectation, &seen).is_pointed());
        }
    }

    #[test]
    fn a_name_that_leads_nowhere_is_never_pointed(mut seen in seen()) {
        for walk in [&mut seen.ipv4, &mut seen.ipv6] {
            walk.aliases.retain(|alias| alias != TARGET);
            walk.addresses.clear();
        }
        prop_assert!(!judge(&expectation(), &seen).is_pointed());
    }

    #[test]
    fn a_chain_to_the_target_on_both_families_is_pointed_whatever_else(mut seen in seen()) {
        for walk in [&mut seen.ipv4, &mut seen.ipv6] {
            walk.aliases.push(TARGET.to_owned());
        }
        prop_assert_eq!(judge(&expectation(), &seen), Verdict::Pointed { via: Via::Cname });
    }

    #[test]
    fn a_wrong_answer_over_http_is_never_overruled(mut seen in seen(), status in any::<u16>()) {
        seen.ipv4 = Walk { aliases: vec![], addresses: vec!["198.51.100.7".parse().unwrap()], end: End::Addresses };
        seen.target_addresses.clear();
        seen.http.push(HttpAnswer { address: seen.ipv4.addresses[0], reply: HttpReply::Other(status) });
        prop_assert!(!judge(&expectation(), &seen).is_pointed());
    }

    #[test]
    fn a_stale_aaaa_is_named_whatever_the_address(address in any::<std::net::Ipv6Addr>()) {
        prop_assume!(address.to_string() != OURS_V6);
        let seen = Seen {
            ipv4: Walk { aliases: vec![], addresses: vec![OURS_V4.parse().unwrap()], end: End::Addresses },
            ipv6: Walk { aliases: vec![], addresses: vec![address.into()], end: End::Addresses },
            target_addresses: vec![],
            target_silent: false,
            http: vec![],
        };
        prop_assert_eq!(judge(&expectation(), &seen), Verdict::NotPointed(Cause::StaleAaaa));
    }
}

#[test]
fn codes_are_unique() {
    let codes: std::collections::HashSet<_> = Cause::ALL.into_iter().map(Cause::code).collect();
    assert_eq!(codes.len(), Cause::ALL.len());
}
