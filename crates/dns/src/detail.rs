//! The sentences: what was expected and what was seen.

use std::fmt;
use std::net::IpAddr;

use crate::expectation::Addresses;
use crate::judge::foreign;
use crate::{Cause, End, Expectation, HttpReply, Seen, Walk};

/// How many names of a chain a sentence can take.
const SHOWN: usize = 6;

/// What was expected and what was seen, in one sentence.
pub(crate) fn sentence(expectation: &Expectation, seen: &Seen, cause: Cause) -> String {
    let what = match cause {
        Cause::NxDomain => "the name does not exist in DNS".to_owned(),
        Cause::NoRecords => "the name has no CNAME, A or AAAA record".to_owned(),
        Cause::CnameElsewhere => {
            format!("its CNAME leads to {}", Led(telling(seen, End::Addresses)))
        }
        Cause::AddressElsewhere => {
            format!("it has {}, not ours", Addresses(&strangers(expectation, seen)))
        }
        Cause::StaleAaaa => format!(
            "its A record is right, but its AAAA record has {}, which a certificate authority tries first",
            Addresses(&strangers(expectation, seen))
        ),
        Cause::CnameLoop => {
            format!(
                "its CNAMEs lead in a circle: {}",
                Chain(expectation, telling(seen, End::CnameLoop))
            )
        }
        Cause::ChainTooLong => {
            format!(
                "it has too many CNAMEs in a row: {}",
                Chain(expectation, telling(seen, End::ChainTooLong))
            )
        }
        Cause::Servfail => format!(
            "the name servers of {} fail (SERVFAIL)",
            asked(expectation, seen, End::Servfail)
        ),
        Cause::Refused => {
            format!(
                "the name servers of {} refuse to answer for it",
                asked(expectation, seen, End::Refused)
            )
        }
        Cause::Timeout => {
            format!("the name servers of {} do not answer", asked(expectation, seen, End::Timeout))
        }
        Cause::Unreadable => {
            format!(
                "the name servers of {} answer nothing readable",
                asked(expectation, seen, End::Unreadable)
            )
        }
        Cause::TargetSilent => format!(
            "it has {}, and whether those are ours cannot be told: our own target does not answer",
            Addresses(&strangers(expectation, seen))
        ),
        Cause::ResolverUnreachable => "the resolver this replica asks does not answer".to_owned(),
    };
    format!("expected {expectation}; {what}{}.", Http(seen))
}

/// What a short look did not get to see, in one sentence.
pub(crate) fn hurried(expectation: &Expectation) -> String {
    format!(
        "expected {expectation}; there was no whole answer at once, so {} is looked at again with more patience.",
        expectation.name
    )
}

/// What was seen, in one phrase, whatever the verdict.
pub(crate) fn summary(seen: &Seen) -> String {
    let (four, six) = (Led(&seen.ipv4).to_string(), Led(&seen.ipv6).to_string());
    if four == six { four } else { format!("IPv4: {four}; IPv6: {six}") }
}

/// The walk that ended like that, or else the first that went anywhere.
fn telling(seen: &Seen, end: End) -> &Walk {
    let walks = [&seen.ipv4, &seen.ipv6];
    let ended = walks.into_iter().find(|walk| walk.end == end && !walk.aliases.is_empty());
    let went = || walks.into_iter().find(|walk| !walk.aliases.is_empty());
    ended.or_else(went).unwrap_or(&seen.ipv4)
}

fn asked<'a>(expectation: &'a Expectation, seen: &'a Seen, end: End) -> &'a str {
    let walk =
        [&seen.ipv4, &seen.ipv6].into_iter().find(|walk| walk.end == end).unwrap_or(&seen.ipv4);
    walk.aliases.last().map_or(expectation.name.as_str(), String::as_str)
}

fn strangers(expectation: &Expectation, seen: &Seen) -> Vec<IpAddr> {
    let reached = |walk: &Walk| walk.aliases.iter().any(|alias| expectation.is_target(alias));
    let walks = [&seen.ipv4, &seen.ipv6].into_iter().filter(|walk| !reached(walk));
    walks.flat_map(|walk| foreign(expectation, seen, walk)).collect()
}

/// Where a walk led.
struct Led<'a>(&'a Walk);

impl fmt::Display for Led<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.aliases.last(), self.0.end) {
            (Some(last), End::Addresses) => {
                write!(f, "{last}, which has {}", Addresses(&self.0.addresses))
            }
            (Some(last), end) => write!(f, "{last}, {}", led_astray(end)),
            (None, End::Addresses) => write!(f, "{}", Addresses(&self.0.addresses)),
            (None, end) => f.write_str(stuck(end)),
        }
    }
}

/// How a CNAME's target turned out.
fn led_astray(end: End) -> &'static str {
    match end {
        End::Target | End::Addresses => "as expected",
        End::NoRecords => "which has no address",
        End::NxDomain => "which does not exist",
        End::CnameLoop => "which leads back to itself",
        End::ChainTooLong => "which leads on and on",
        End::Servfail => "whose name servers fail (SERVFAIL)",
        End::Refused => "whose name servers refuse to answer",
        End::Timeout => "whose name servers do not answer",
        End::Unreadable => "whose name servers answer nothing readable",
        End::ResolverUnreachable => "and then the resolver did not answer",
    }
}

/// How a name without a CNAME turned out.
fn stuck(end: End) -> &'static str {
    match end {
        End::Target | End::Addresses | End::NoRecords => "no record",
        End::NxDomain => "no such name",
        End::CnameLoop | End::ChainTooLong => "CNAMEs without an end",
        End::Servfail => "an error of its name servers (SERVFAIL)",
        End::Refused => "a refusal of its name servers",
        End::Timeout => "no answer of its name servers",
        End::Unreadable => "nothing readable",
        End::ResolverUnreachable => "no answer of the resolver",
    }
}

/// A chain of names from the start.
struct Chain<'a>(&'a Expectation, &'a Walk);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.name)?;
        for alias in self.1.aliases.iter().take(SHOWN) {
            write!(f, " → {alias}")?;
        }
        f.write_str(if self.1.aliases.len() > SHOWN { " → …" } else { "" })
    }
}

/// What HTTP added, when it was asked.
struct Http<'a>(&'a Seen);

impl fmt::Display for Http<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = self.0.http.iter().find_map(|answer| match answer.reply {
            HttpReply::Other(status) => Some((answer.address, status)),
            _ => None,
        });
        match (other, self.0.http.first()) {
            (Some((address, status)), _) => {
                write!(f, "; over HTTP {address} answered {status}, which is not us")
            }
            (None, Some(_)) => f.write_str("; nor does a request to it reach us over HTTP"),
            (None, None) => Ok(()),
        }
    }
}
