//! The CA's own eyes on DNS: real queries to the zone's server, over UDP, over TCP when the answer is cut short.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::CAA;
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::id::random_bytes;
use super::problem::{Kind, Problem};

/// How long one query may take, and how often it is sent.
const QUERY_LIMIT: Duration = Duration::from_millis(1000);
const QUERY_TRIES: usize = 2;

/// Asks the zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolver {
    server: SocketAddr,
}

/// Why there is no answer.
enum Failure {
    Timeout,
    Code(ResponseCode),
    Broken,
}

impl Resolver {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self { server }
    }

    /// The addresses of a name: IPv6 first.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Problem> {
        let (v6, v4) =
            tokio::join!(self.look_up(name, RecordType::AAAA), self.look_up(name, RecordType::A));
        let addresses = v6?.into_iter().chain(v4?).filter_map(|data| match data {
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            RData::A(address) => Some(IpAddr::V4(address.0)),
            _ => None,
        });
        let addresses: Vec<IpAddr> = addresses.collect();
        match addresses.is_empty() {
            true => {
                let detail = format!("DNS problem: {name} has neither A nor AAAA records");
                Err(Problem::new(Kind::Dns, detail))
            }
            false => Ok(addresses),
        }
    }

    /// The texts at a name.
    pub(crate) async fn texts(&self, name: &str) -> Result<Vec<String>, Problem> {
        let texts = self.look_up(name, RecordType::TXT).await?.into_iter().filter_map(|data| {
            let RData::TXT(text) = data else { return None };
            Some(text.txt_data.iter().map(|part| String::from_utf8_lossy(part)).collect())
        });
        Ok(texts.collect())
    }

    /// The CAA records at a name.
    pub(crate) async fn caa(&self, name: &str) -> Result<Vec<CAA>, Problem> {
        let records = self.look_up(name, RecordType::CAA).await?.into_iter();
        Ok(records
            .filter_map(|data| if let RData::CAA(caa) = data { Some(caa) } else { None })
            .collect())
    }

    /// Follows a name to data of a type; none where the name exists without (for CAA: or does not exist).
    async fn look_up(&self, name: &str, kind: RecordType) -> Result<Vec<RData>, Problem> {
        let mut asked = name.to_owned();
        let mut passed = HashSet::new();
        while passed.insert(asked.clone()) {
            let reply = match self.ask(&asked, kind).await {
                Ok(reply) => reply,
                Err(Failure::Code(ResponseCode::NXDomain)) if kind == RecordType::CAA => {
                    return Ok(Vec::new());
                }
                Err(failure) => return Err(failure.problem(&asked, kind)),
            };
            let (aliases, found): (Vec<_>, Vec<_>) = reply
                .answers
                .into_iter()
                .filter(|one| [kind, RecordType::CNAME].contains(&one.record_type()))
                .partition(|one| one.record_type() == RecordType::CNAME);
            // An SOA says that the chain ends here; otherwise what is left of it is elsewhere.
            let ends_here = !found.is_empty() || !reply.authorities.is_empty();
            let target = aliases.last().and_then(|one| target(&one.data)).filter(|_| !ends_here);
            passed.extend(aliases.iter().map(|one| text(&one.name)).filter(|one| *one != asked));
            match target {
                Some(target) => asked = target,
                None => return Ok(found.into_iter().map(|one| one.data).collect()),
            }
        }
        let detail = format!("DNS problem: the CNAME chain of {name} is a loop");
        Err(Problem::new(Kind::Dns, detail))
    }

    async fn ask(&self, name: &str, kind: RecordType) -> Result<Message, Failure> {
        let mut owner = Name::from_ascii(name).map_err(|_| Failure::Broken)?;
        owner.set_fqdn(true);
        let mut query = Message::query();
        query.metadata.id = u16::from_be_bytes(random_bytes());
        query.add_query(Query::query(owner, kind));
        let bytes = query.to_vec().map_err(|_| Failure::Broken)?;
        for _ in 0..QUERY_TRIES {
            match tokio::time::timeout(QUERY_LIMIT, self.exchange(&query, &bytes)).await {
                Ok(Ok(reply)) => return judged(reply),
                Ok(Err(_)) => return Err(Failure::Broken),
                Err(_) => {}
            }
        }
        Err(Failure::Timeout)
    }

    async fn exchange(&self, query: &Message, bytes: &[u8]) -> io::Result<Message> {
        let any: SocketAddr = match self.server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(self.server).await?;
        socket.send(bytes).await?;
        let mut buffer = [0; 4096];
        loop {
            let length = socket.recv(&mut buffer).await?;
            match Message::from_vec(buffer.get(..length).unwrap_or_default()) {
                Ok(reply) if answers(query, &reply) && reply.metadata.truncation => {
                    return self.exchange_tcp(bytes).await;
                }
                Ok(reply) if answers(query, &reply) => return Ok(reply),
                _ => {}
            }
        }
    }

    async fn exchange_tcp(&self, bytes: &[u8]) -> io::Result<Message> {
        let mut stream = TcpStream::connect(self.server).await?;
        let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await?;
        let length = stream.read_u16().await?;
        let mut reply = vec![0; usize::from(length)];
        stream.read_exact(&mut reply).await?;
        Message::from_vec(&reply).map_err(io::Error::other)
    }
}

fn answers(query: &Message, reply: &Message) -> bool {
    reply.metadata.id == query.metadata.id && reply.queries == query.queries
}

fn judged(reply: Message) -> Result<Message, Failure> {
    match reply.metadata.response_code {
        ResponseCode::NoError => Ok(reply),
        code => Err(Failure::Code(code)),
    }
}

fn target(data: &RData) -> Option<String> {
    if let RData::CNAME(target) = data { Some(text(&target.0)) } else { None }
}

/// A name in lower case, without the dot at its end.
fn text(name: &Name) -> String {
    name.to_lowercase().to_ascii().trim_end_matches('.').to_owned()
}

impl Failure {
    fn problem(&self, name: &str, kind: RecordType) -> Problem {
        let what = match self {
            Failure::Timeout => "query timed out".to_owned(),
            Failure::Code(code) => code_name(*code),
            Failure::Broken => "no usable answer".to_owned(),
        };
        Problem::new(Kind::Dns, format!("DNS problem: {what} looking up {kind} for {name}"))
    }
}

fn code_name(code: ResponseCode) -> String {
    match code {
        ResponseCode::NXDomain => "NXDOMAIN".to_owned(),
        ResponseCode::ServFail => "SERVFAIL".to_owned(),
        ResponseCode::Refused => "REFUSED".to_owned(),
        other => format!("{other:?}"),
    }
}
