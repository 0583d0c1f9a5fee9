//! Asks the world's DNS, without a memory of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::rr::{Name, RecordType};
use hickory_resolver::net::NetError;
use hickory_resolver::system_conf::read_system_conf;
use holdfast_model::Hostname;
use rustix::process::{Resource, getrlimit};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::proof;
use crate::question::Question;
use crate::reply::Reply;
use crate::servers::{Patience, Servers};
use crate::walk::{Step, Walker};
use crate::{End, Expectation, Finding, Seen, Turn, Verdict, Walk, judge};

/// How long and how far a look goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one question to the resolver, which is sent again after a third of it, and once more after all of it.
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

/// Looks at names; clones share what is known of the servers, and the room.
#[derive(Clone)]
pub struct Resolver {
    servers: Arc<Servers>,
    pub(crate) limits: Limits,
    room: usize,
    /// So many whole looks at once.
    looks: Arc<Semaphore>,
    /// So many glances at once.
    pub(crate) glances: Arc<Semaphore>,
}

/// One look takes two questions at a time, and each a socket for each server it goes to: no more than half of the files that this
/// process may open are sockets of glances.
const FILES_OF_A_LOOK: u64 = 16;

/// No more looks at once than this, however many files may be open.
const MOST_LOOKS: u64 = 1024;

/// What was answered so long ago says that a resolver is there.
const LATELY: Duration = Duration::from_secs(5);

/// Of the time for a question, until another server is asked as well, and the same is asked again.
const STEPS: u32 = 3;

impl Resolver {
    /// Asks these servers, or those of the system's configuration.
    pub fn new(servers: Option<&[SocketAddr]>, limits: Limits) -> Result<Self, Error> {
        let servers = match servers {
            Some([]) => return Err(Error::NoServers),
            Some(servers) => servers.to_vec(),
            None => system_servers()?,
        };
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from((files / FILES_OF_A_LOOK).clamp(1, MOST_LOOKS)).unwrap_or(1);
        Ok(Self {
            servers: Arc::new(Servers::new(servers)),
            limits,
            room,
            looks: Arc::new(Semaphore::new(room)),
            glances: Arc::new(Semaphore::new(room)),
        })
    }

    /// How many looks are made at once; more wait. It follows from how many files this process may open.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room
    }

    /// Did our resolver answer anything in the last seconds? Where it keeps silent, no more should be begun than must be.
    #[must_use]
    pub fn is_heard_of(&self) -> bool {
        Instant::now().checked_sub(LATELY).is_none_or(|then| self.servers.answered_since(then))
    }

    /// Whether our resolver answers: what it answered lately counts, else it is asked.
    pub async fn answers(&self) -> bool {
        let (limits, now) = (self.limits, Instant::now());
        let look = Look { servers: &self.servers, limits, until: now + limits.query };
        self.is_heard_of() || look.resolver_answers(now).await
    }

    /// Waits until there is room for one more whole look.
    pub async fn turn_to_look(&self) -> Turn {
        Turn::of(&self.looks).await
    }

    /// Looks at a name. Never fails: what goes wrong is part of what is seen.
    pub async fn look(&self, expectation: &Expectation) -> Finding {
        // The wait for a place is no part of the look.
        let turn = self.turn_to_look().await;
        self.look_in_turn(expectation, turn).await
    }

    /// Looks at a name, where there is room already.
    pub async fn look_in_turn(&self, expectation: &Expectation, _turn: Turn) -> Finding {
        self.look_within(expectation, self.limits).await
    }

    /// Looks at a name for as long as these limits say.
    pub(crate) async fn look_within(&self, expectation: &Expectation, limits: Limits) -> Finding {
        let look = Look { servers: &self.servers, limits, until: Instant::now() + limits.look };
        let seen = look.at(expectation).await;
        let finding = Finding::new(expectation.clone(), seen);
        tracing::debug!(name = %expectation.name, verdict = ?finding.verdict, "looked at DNS");
        finding
    }
}

/// One look under way.
struct Look<'a> {
    servers: &'a Servers,
    limits: Limits,
    until: Instant,
}

impl Look<'_> {
    async fn at(&self, expectation: &Expectation) -> Seen {
        let (ipv4, ipv6) = tokio::join!(
            self.walk(expectation, RecordType::A),
            self.walk(expectation, RecordType::AAAA)
        );
        let (target_addresses, http) = (Vec::new(), Vec::new());
        let mut seen = Seen { ipv4, ipv6, target_addresses, target_silent: false, http };
        if Self::unsettled(expectation, &seen) {
            (seen.target_addresses, seen.target_silent) = self.target_addresses(expectation).await;
        }
        if let Some(proof) = &expectation.proof
            && Self::unsettled(expectation, &seen)
        {
            seen.http = proof::ask(&expectation.name, proof, &seen, self.limits).await;
        }
        seen
    }

    /// Whether there are addresses that may yet turn out to be ours.
    fn unsettled(expectation: &Expectation, seen: &Seen) -> bool {
        let addresses = !seen.ipv4.addresses.is_empty() || !seen.ipv6.addresses.is_empty();
        addresses && matches!(judge(expectation, seen), Verdict::NotPointed(_))
    }

    async fn walk(&self, expectation: &Expectation, kind: RecordType) -> Walk {
        let is_target = |name: &str| expectation.is_target(name);
        self.walk_from(&expectation.name, kind, &is_target).await
    }

    async fn walk_from(
        &self,
        name: &Hostname,
        kind: RecordType,
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
                    let reply = self.ask(name, kind).await;
                    step = walker.take(kind, &reply);
                }
            }
        }
    }

    async fn ask(&self, name: Name, kind: RecordType) -> Reply {
        let Some(question) = Question::new(name, kind) else {
            return Reply::Nothing(End::Unreadable);
        };
        let begun = Instant::now();
        let until = self.until.min(begun + self.limits.query * 2);
        match self.servers.ask(&question, self.patience(until)).await {
            Reply::Nothing(End::Timeout) if !self.resolver_answers(begun).await => {
                Reply::Nothing(End::ResolverUnreachable)
            }
            reply => reply,
        }
    }

    fn patience(&self, until: Instant) -> Patience {
        let Limits { query, .. } = self.limits;
        Patience { step: query / STEPS, opinion: query, until }
    }

    /// Whether our resolver answers anything at all: if not, silence says nothing of the name asked for. What it answered to others
    /// meanwhile is answer enough.
    async fn resolver_answers(&self, begun: Instant) -> bool {
        if self.servers.answered_since(begun) {
            return true;
        }
        let Some(root) = Question::new(Name::root(), RecordType::NS) else { return false };
        let patience = self.patience(Instant::now() + self.limits.query);
        let reply = self.servers.ask(&root, patience).await;
        !matches!(reply, Reply::Nothing(End::Timeout | End::ResolverUnreachable))
            || self.servers.answered_since(begun)
    }

    /// What our targets resolve to now: what a flattened CNAME would show. And whether any of them kept silent.
    async fn target_addresses(&self, expectation: &Expectation) -> (Vec<IpAddr>, bool) {
        let (mut addresses, mut silent) = (Vec::new(), false);
        for target in &expectation.targets {
            let (ipv4, ipv6) = tokio::join!(
                self.walk_from(target, RecordType::A, &|_: &str| false),
                self.walk_from(target, RecordType::AAAA, &|_: &str| false)
            );
            silent |= ipv4.is_silent() || ipv6.is_silent();
            addresses.extend(ipv4.addresses);
            addresses.extend(ipv6.addresses);
        }
        addresses.sort_unstable();
        addresses.dedup();
        (addresses, silent)
    }
}

fn system_servers() -> Result<Vec<SocketAddr>, Error> {
    /// Where the system's configuration has them.
    const PORT: u16 = 53;
    let (configuration, _) =
        read_system_conf().map_err(|source| Error::SystemConfiguration { source })?;
    Ok(configuration.name_servers.iter().map(|server| (server.ip, PORT).into()).collect())
}
