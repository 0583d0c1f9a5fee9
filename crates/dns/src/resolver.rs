//! Asks the world's DNS, without a memory of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{DnsRequestOptions, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::xfer::{DnsHandle as _, FirstAnswer as _};
use hickory_resolver::net::{NetError, RetryDnsHandle};
use hickory_resolver::system_conf::read_system_conf;
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig};
use holdfast_model::Hostname;
use tokio::time::{Instant, timeout_at};

use crate::proof;
use crate::reply::Reply;
use crate::walk::{Step, Walker};
use crate::{End, Expectation, Finding, Seen, Verdict, Walk, judge};

/// How long and how far a look goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one question to the resolver, repeated once.
    pub query: Duration,
    /// For all questions of a look to DNS.
    pub look: Duration,
    /// For one request over HTTP.
    pub http: Duration,
    /// How many CNAMEs in a row are followed.
    pub chain: usize,
    /// Whether addresses of loopback and private networks are asked over HTTP. Customers choose the addresses of
    /// their names, and must not be able to make us knock at doors inside the operator's network.
    pub ask_private: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            query: Duration::from_secs(3),
            look: Duration::from_secs(15),
            http: Duration::from_secs(5),
            chain: 16,
            ask_private: false,
        }
    }
}

/// Why there is no resolver.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system says of no name server.
    #[error("/etc/resolv.conf names no usable name server: name one in [dns] resolvers")]
    SystemConfiguration {
        /// What the reader said.
        source: NetError,
    },
    /// An empty list was given.
    #[error(
        "[dns] resolvers is empty: name at least one, or leave the key out to use the system's"
    )]
    NoServers,
}

/// Looks at names; clones share the connections.
#[derive(Clone)]
pub struct Resolver {
    handle: RetryDnsHandle<NameServerPool<TokioRuntimeProvider>>,
    limits: Limits,
}

impl Resolver {
    /// Asks these servers, or those of the system's configuration.
    pub fn new(servers: Option<&[SocketAddr]>, limits: Limits) -> Result<Self, Error> {
        let servers = match servers {
            Some([]) => return Err(Error::NoServers),
            Some(servers) => servers.iter().copied().map(server).collect(),
            None => system_servers()?,
        };
        let mut options = ResolverOpts::default();
        options.timeout = limits.query;
        // A busy replica looks at many names at once, over the same connections.
        options.max_active_requests = 4096;
        let tls = TlsConfig::new().map_err(|source| Error::SystemConfiguration { source })?;
        let context = Arc::new(PoolContext::new(options, tls));
        let pool = NameServerPool::from_config(servers, context, TokioRuntimeProvider::default());
        Ok(Self { handle: RetryDnsHandle::new(pool, 1), limits })
    }

    /// Looks at a name. Never fails: what goes wrong is part of what is seen.
    pub async fn look(&self, expectation: &Expectation) -> Finding {
        let deadline = Instant::now() + self.limits.look;
        let (ipv4, ipv6) = tokio::join!(
            self.walk(expectation, RecordType::A, deadline),
            self.walk(expectation, RecordType::AAAA, deadline)
        );
        let mut seen = Seen { ipv4, ipv6, target_addresses: Vec::new(), http: Vec::new() };
        if Self::unsettled(expectation, &seen) {
            seen.target_addresses = self.target_addresses(expectation, deadline).await;
        }
        if let Some(proof) = &expectation.proof
            && Self::unsettled(expectation, &seen)
        {
            seen.http = proof::ask(&expectation.name, proof, &seen, self.limits).await;
        }
        let finding = Finding::new(expectation.clone(), seen);
        tracing::debug!(name = %expectation.name, verdict = ?finding.verdict, "looked at DNS");
        finding
    }

    /// Whether there are addresses that may yet turn out to be ours.
    fn unsettled(expectation: &Expectation, seen: &Seen) -> bool {
        let addresses = !seen.ipv4.addresses.is_empty() || !seen.ipv6.addresses.is_empty();
        addresses && matches!(judge(expectation, seen), Verdict::NotPointed(_))
    }

    async fn walk(&self, expectation: &Expectation, kind: RecordType, deadline: Instant) -> Walk {
        let is_target = |name: &str| expectation.is_target(name);
        self.walk_from(&expectation.name, kind, deadline, &is_target).await
    }

    async fn walk_from(
        &self,
        name: &Hostname,
        kind: RecordType,
        deadline: Instant,
        is_target: &(dyn Fn(&str) -> bool + Sync),
    ) -> Walk {
        let Ok(name) = Name::from_ascii(format!("{name}.")) else {
            return Walk { aliases: Vec::new(), addresses: Vec::new(), end: End::Unreadable };
        };
        let mut walker = Walker::new(name, kind, self.limits.chain, is_target);
        let mut step = walker.begin();
        loop {
            match step {
                Step::Done(walk) => return walk,
                Step::Ask(name, kind) => {
                    let reply = self.ask(name, kind, deadline).await;
                    step = walker.take(kind, &reply);
                }
            }
        }
    }

    async fn ask(&self, name: Name, kind: RecordType, deadline: Instant) -> Reply {
        let reply = match timeout_at(deadline, self.question(name, kind)).await {
            Ok(reply) => reply,
            Err(_) => Reply::Nothing(End::Timeout),
        };
        match reply {
            Reply::Nothing(End::Timeout) if !self.resolver_answers().await => {
                Reply::Nothing(End::ResolverUnreachable)
            }
            reply => reply,
        }
    }

    async fn question(&self, name: Name, kind: RecordType) -> Reply {
        let answer = self
            .handle
            .lookup(Query::query(name, kind), DnsRequestOptions::default())
            .first_answer()
            .await;
        match answer {
            Ok(response) => Reply::Records {
                exists: response.response_code != ResponseCode::NXDomain,
                records: response.into_message().answers,
            },
            Err(error) => Reply::failed(&error),
        }
    }

    /// Whether our resolver answers anything at all: if not, silence says nothing of the name asked for.
    async fn resolver_answers(&self) -> bool {
        let root = self.question(Name::root(), RecordType::NS);
        let reply = tokio::time::timeout(self.limits.query, root).await;
        !matches!(reply, Err(_) | Ok(Reply::Nothing(End::Timeout | End::ResolverUnreachable)))
    }

    /// What our targets resolve to now: what a flattened CNAME would show.
    async fn target_addresses(&self, expectation: &Expectation, deadline: Instant) -> Vec<IpAddr> {
        let mut addresses = Vec::new();
        for target in &expectation.targets {
            let (ipv4, ipv6) = tokio::join!(
                self.walk_from(target, RecordType::A, deadline, &|_: &str| false),
                self.walk_from(target, RecordType::AAAA, deadline, &|_: &str| false)
            );
            addresses.extend(ipv4.addresses);
            addresses.extend(ipv6.addresses);
        }
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}

fn server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

fn system_servers() -> Result<Vec<NameServerConfig>, Error> {
    let (configuration, _) =
        read_system_conf().map_err(|source| Error::SystemConfiguration { source })?;
    Ok(configuration.name_servers)
}
