//! DNS: does every resolver answer, and do our own targets lead anywhere?

use holdfast_dns::{End, Expectation, Limits, Resolver, Seen};
use holdfast_model::Hostname;
use std::net::SocketAddr;

use super::finding::Finding;
use crate::{config::Dns, failure::chain};

pub(super) async fn look(dns: &Dns) -> Vec<Finding> {
    let Some(resolvers) = &dns.resolvers else { return ask(None, dns).await };
    let mut findings = Vec::new();
    for resolver in resolvers {
        findings.extend(ask(Some(resolver.0), dns).await);
    }
    findings
}

async fn ask(server: Option<SocketAddr>, dns: &Dns) -> Vec<Finding> {
    let who =
        server.map_or_else(|| "the system's resolver".to_owned(), |server| server.to_string());
    let servers = server.map(|server| vec![server]);
    let resolver = match Resolver::new(servers.as_deref(), Limits::default()) {
        Ok(resolver) => resolver,
        Err(error) => {
            return vec![Finding::wrong(
                "dns resolver",
                chain(&error),
                "Name a DNS server in dns.resolvers.",
            )];
        }
    };
    let mut findings = Vec::new();
    for target in &dns.targets {
        findings.push(leads(&who, target, &resolver).await);
    }
    findings
}

async fn leads(who: &str, target: &Hostname, resolver: &Resolver) -> Finding {
    let nothing = Expectation {
        name: target.clone(),
        targets: Vec::new(),
        addresses: Vec::new(),
        proof: None,
    };
    let seen = resolver.look(&nothing).await.seen;
    judge(who, target, &seen)
}

fn judge(who: &str, target: &Hostname, seen: &Seen) -> Finding {
    let addresses: Vec<_> =
        seen.ipv4.addresses.iter().chain(&seen.ipv6.addresses).map(ToString::to_string).collect();
    if seen.ipv4.end == End::ResolverUnreachable {
        return Finding::wrong(
            "dns resolver",
            format!("{who} does not answer"),
            "Name a DNS server that does in dns.resolvers, or see to the network.",
        );
    }
    if addresses.is_empty() {
        return Finding::wrong(
            "dns target",
            format!("{target} has no address, says {who}"),
            format!(
                "Give {target} an A or AAAA record that leads to the edge: every customer's CNAME ends there."
            ),
        );
    }
    Finding::good("dns target", format!("{target} leads to {}, says {who}", addresses.join(", ")))
}
