//! Decides from what was seen whether a name is pointed at us. Pure and total.
//!
//! Each address family is judged by itself, since a visitor or a CA uses one of them: a name is pointed at us when
//! no family leads elsewhere and at least one leads to us. HTTP can speak for a family that leads elsewhere,
//! because a proxy of the customer's may stand before us.

use std::net::IpAddr;

use crate::{Cause, End, Expectation, HttpReply, Seen, Verdict, Via, Walk};

/// Decides whether the name is pointed at us, and how, or why not.
#[must_use]
pub fn judge(expectation: &Expectation, seen: &Seen) -> Verdict {
    let ipv4 = standing(expectation, seen, &seen.ipv4);
    let ipv6 = standing(expectation, seen, &seen.ipv6);
    match (ipv4, ipv6) {
        (Standing::Ours(one), Standing::Ours(other)) => {
            Verdict::Pointed { via: plainer(one, other) }
        }
        (Standing::Ours(via), Standing::Nowhere) | (Standing::Nowhere, Standing::Ours(via)) => {
            Verdict::Pointed { via }
        }
        (Standing::Nowhere, Standing::Nowhere) => Verdict::NotPointed(nowhere(seen)),
        _ if proven(seen, ipv4, ipv6) => Verdict::Pointed { via: Via::Http },
        _ if seen.target_silent => Verdict::NotPointed(Cause::TargetSilent),
        (Standing::Ours(_), Standing::Elsewhere) => Verdict::NotPointed(Cause::StaleAaaa),
        (Standing::Elsewhere, _) => Verdict::NotPointed(elsewhere(expectation, seen, &seen.ipv4)),
        (_, Standing::Elsewhere) => Verdict::NotPointed(elsewhere(expectation, seen, &seen.ipv6)),
    }
}

/// Where one address family leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Ours(Via),
    Elsewhere,
    Nowhere,
}

fn standing(expectation: &Expectation, seen: &Seen, walk: &Walk) -> Standing {
    if walk.aliases.iter().any(|alias| expectation.is_target(alias)) {
        Standing::Ours(Via::Cname)
    } else if walk.addresses.is_empty() {
        Standing::Nowhere
    } else if foreign(expectation, seen, walk).next().is_none() {
        Standing::Ours(Via::Address)
    } else {
        Standing::Elsewhere
    }
}

/// The addresses at the end of a walk that are not ours.
pub(crate) fn foreign<'a>(
    expectation: &'a Expectation,
    seen: &'a Seen,
    walk: &'a Walk,
) -> impl Iterator<Item = IpAddr> + 'a {
    let ours = |address: &IpAddr| {
        expectation.addresses.contains(address) || seen.target_addresses.contains(address)
    };
    walk.addresses.iter().copied().filter(move |address| !ours(address))
}

fn plainer(one: Via, other: Via) -> Via {
    if one == Via::Cname { one } else { other }
}

/// A CNAME with only foreign addresses at its end is itself what is wrong; beside an address of ours, the
/// foreign addresses are.
fn elsewhere(expectation: &Expectation, seen: &Seen, walk: &Walk) -> Cause {
    let foreign = foreign(expectation, seen, walk).count();
    if walk.aliases.is_empty() || foreign < walk.addresses.len() {
        Cause::AddressElsewhere
    } else {
        Cause::CnameElsewhere
    }
}

/// The more telling of the two reasons for which neither family leads anywhere.
fn nowhere(seen: &Seen) -> Cause {
    let reasons = [dead_end(&seen.ipv4), dead_end(&seen.ipv6)];
    let telling = |wanted: &Cause| reasons.contains(wanted);
    let order = [
        Cause::CnameLoop,
        Cause::ChainTooLong,
        Cause::ResolverUnreachable,
        Cause::Refused,
        Cause::Servfail,
        Cause::Unreadable,
        Cause::Timeout,
        Cause::CnameElsewhere,
        Cause::NxDomain,
    ];
    order.into_iter().find(telling).unwrap_or(Cause::NoRecords)
}

fn dead_end(walk: &Walk) -> Cause {
    match walk.end {
        End::CnameLoop => Cause::CnameLoop,
        End::ChainTooLong => Cause::ChainTooLong,
        End::ResolverUnreachable => Cause::ResolverUnreachable,
        End::Refused => Cause::Refused,
        End::Servfail => Cause::Servfail,
        End::Unreadable => Cause::Unreadable,
        End::Timeout => Cause::Timeout,
        _ if !walk.aliases.is_empty() => Cause::CnameElsewhere,
        End::NxDomain => Cause::NxDomain,
        End::NoRecords | End::Target | End::Addresses => Cause::NoRecords,
    }
}

/// Whether HTTP shows that each family that leads elsewhere still reaches us.
///
/// Silence on IPv6 is no proof against a proxy that answered for us on IPv4: this machine may have no IPv6. But
/// where IPv4 needs no proxy, a foreign IPv6 address is a leftover until it answers for us itself.
fn proven(seen: &Seen, ipv4: Standing, ipv6: Standing) -> bool {
    let (four, six) = (Proof::of(seen, &seen.ipv4), Proof::of(seen, &seen.ipv6));
    match (ipv4, ipv6) {
        (Standing::Elsewhere, Standing::Elsewhere) => four == Proof::Given && six != Proof::Refuted,
        (Standing::Elsewhere, _) => four == Proof::Given,
        (_, Standing::Elsewhere) => six == Proof::Given,
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    Given,
    Refuted,
    Missing,
}

impl Proof {
    fn of(seen: &Seen, walk: &Walk) -> Self {
        let replies = seen.http.iter().filter(|answer| walk.addresses.contains(&answer.address));
        replies.fold(Self::Missing, |so_far, answer| match (so_far, answer.reply) {
            (Self::Refuted, _) | (_, HttpReply::Other(_)) => Self::Refuted,
            (_, HttpReply::Ours) => Self::Given,
            (so_far, HttpReply::None | HttpReply::Private) => so_far,
        })
    }
}
