//! A DNS server for tests, over UDP and TCP, that answers and misbehaves by name: a resolver, or a name's own servers, telling a lie.

#![expect(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// What happens to questions about a name.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// These records, as written: `A 192.0.2.1`, `AAAA ::1`, `CNAME other.example`.
    Records(Vec<RData>),
    /// The first records for A, the second for AAAA, as no correct server would.
    Split(Vec<RData>, Vec<RData>),
    /// The name's whole chain in one answer, as a recursive resolver gives it.
    Recursive(Vec<RData>),
    /// This code, except that a question for the CNAME is answered with the records.
    Fails(ResponseCode, Vec<RData>),
    /// The truncated bit over UDP, the records over TCP.
    Truncates(Vec<RData>),
    /// The truncated bit over UDP; a connection over TCP is taken and nothing is ever said on it.
    TcpHangs,
    /// No reply.
    Silent,
    /// The first records for A, and no reply for AAAA.
    SilentOnIpv6(Vec<RData>),
    /// The records, this much later. Over TCP, what follows on the connection waits.
    Slow(Duration, Vec<RData>),
    /// A reply with the right id and then these bytes.
    Garbage(Vec<u8>),
    /// The records under another id.
    WrongId(Vec<RData>),
    /// The records as the answer to a question about this name.
    WrongQuestion(&'static str, Vec<RData>),
    /// The right question, and these records of another name.
    OfAnother(&'static str, Vec<RData>),
    /// The first records, and at once the second as another answer.
    Twice(Vec<RData>, Vec<RData>),
}

/// A running server; it ends with the test's runtime.
pub struct Server {
    /// Where it listens, over UDP and TCP.
    pub address: SocketAddr,
    zone: Arc<Zone>,
}

impl Server {
    /// Serves these names; any other does not exist. `*.example.com` is every name below, `*` every other name.
    pub async fn start(zone: impl IntoIterator<Item = (&str, Behaviour)>) -> Self {
        let zone = zone.into_iter().map(|(name, behaviour)| (parse_name(name), behaviour));
        let zone = Arc::new(Zone { names: zone.collect(), asked: Mutex::default() });
        let (udp, tcp) = sockets().await;
        let address = udp.local_addr().unwrap();
        tokio::spawn(serve_udp(Arc::new(udp), zone.clone()));
        tokio::spawn(serve_tcp(tcp, zone.clone()));
        Self { address, zone }
    }

    /// How many questions there were about a name.
    #[must_use]
    pub fn questions(&self, name: &str) -> usize {
        let asked = self.zone.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.get(&parse_name(name)).copied().unwrap_or(0)
    }
}

async fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, zone: Arc<Zone>) {
    let mut buffer = [0; 4096];
    loop {
        // A peer that has gone is told of here.
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
        let question = buffer.get(..length).unwrap_or_default();
        let Replies { after, replies } = zone.replies(question, false);
        let socket = socket.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            for reply in replies {
                let _ = socket.send_to(&reply, peer).await;
            }
        });
    }
}

async fn serve_tcp(listener: TcpListener, zone: Arc<Zone>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let zone = zone.clone();
        tokio::spawn(async move { converse(stream, &zone).await.ok() });
    }
}

/// One question after the other.
async fn converse(mut stream: TcpStream, zone: &Zone) -> std::io::Result<()> {
    loop {
        let length = stream.read_u16().await?;
        let mut question = vec![0; length.into()];
        stream.read_exact(&mut question).await?;
        let Replies { after, replies } = zone.replies(&question, true);
        tokio::time::sleep(after).await;
        for reply in replies {
            stream.write_u16(u16::try_from(reply.len()).unwrap()).await?;
            stream.write_all(&reply).await?;
        }
    }
}

struct Zone {
    names: HashMap<Name, Behaviour>,
    asked: Mutex<HashMap<Name, usize>>,
}

/// What is sent back, and after how long.
#[derive(Default)]
struct Replies {
    after: Duration,
    replies: Vec<Vec<u8>>,
}

impl From<Message> for Replies {
    fn from(message: Message) -> Self {
        Self { after: Duration::ZERO, replies: vec![message.to_vec().unwrap()] }
    }
}

impl Zone {
    /// The behaviour of this name: its own, that of the nearest wildcard above it, or that of every other name.
    fn behaviour(&self, name: &Name) -> Option<&Behaviour> {
        let wildcard = |above: Name| Name::from_ascii("*").unwrap().append_domain(&above).ok();
        let above = (0..name.num_labels()).rev().map(|labels| name.trim_to(labels.into()));
        let wildcards = above.filter_map(wildcard);
        let mut found = wildcards.filter_map(|wildcard| self.names.get(&wildcard));
        self.names.get(name).or_else(|| if name.is_root() { None } else { found.next() })
    }

    fn replies(&self, question: &[u8], tcp: bool) -> Replies {
        let Ok(question) = Message::from_vec(question) else { return Replies::default() };
        let Some(query) = question.queries.first() else { return Replies::default() };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked.entry(query.name().clone()).or_default() += 1;
        drop(asked);
        let mut reply = Message::response(question.metadata.id, question.metadata.op_code);
        reply.add_query(query.clone());
        match self.behaviour(query.name()) {
            None if query.name().is_root() => reply.metadata.response_code = ResponseCode::Refused,
            None => reply.metadata.response_code = ResponseCode::NXDomain,
            Some(behaviour) => return self.behave(behaviour, reply, query, tcp),
        }
        reply.into()
    }

    fn behave(&self, how: &Behaviour, mut reply: Message, query: &Query, tcp: bool) -> Replies {
        let asked = query.query_type();
        match how {
            Behaviour::Records(records) => answer(&mut reply, query, records),
            Behaviour::Split(_, records) if asked == RecordType::AAAA => {
                answer(&mut reply, query, records);
            }
            Behaviour::Split(records, _) => answer(&mut reply, query, records),
            Behaviour::Recursive(_) => self.chase(&mut reply, query),
            Behaviour::Fails(_, records) if asked == RecordType::CNAME => {
                answer(&mut reply, query, records);
            }
            Behaviour::Fails(code, _) => reply.metadata.response_code = *code,
            Behaviour::Truncates(records) if tcp => answer(&mut reply, query, records),
            Behaviour::TcpHangs if tcp => return Replies::default(),
            Behaviour::Truncates(_) | Behaviour::TcpHangs => reply.metadata.truncation = true,
            Behaviour::SilentOnIpv6(records) if asked != RecordType::AAAA => {
                answer(&mut reply, query, records);
            }
            Behaviour::Silent | Behaviour::SilentOnIpv6(_) => return Replies::default(),
            Behaviour::Slow(after, records) => {
                answer(&mut reply, query, records);
                return Replies { after: *after, ..reply.into() };
            }
            Behaviour::Garbage(bytes) => {
                let id = reply.metadata.id.to_be_bytes();
                let bytes = id.into_iter().chain(bytes.iter().copied()).collect();
                return Replies { after: Duration::ZERO, replies: vec![bytes] };
            }
            Behaviour::WrongId(records) => {
                answer(&mut reply, query, records);
                reply.metadata.id = !reply.metadata.id;
            }
            Behaviour::WrongQuestion(name, records) => {
                let other = Query::query(parse_name(name), asked);
                reply.queries = vec![other.clone()];
                answer(&mut reply, &other, records);
            }
            Behaviour::OfAnother(name, records) => {
                answer(&mut reply, &Query::query(parse_name(name), asked), records);
            }
            Behaviour::Twice(records, others) => {
                let mut another = reply.clone();
                answer(&mut another, query, others);
                answer(&mut reply, query, records);
                let replies = [reply, another].map(|reply| reply.to_vec().unwrap());
                return Replies { after: Duration::ZERO, replies: replies.into() };
            }
        }
        reply.into()
    }

    fn chase(&self, reply: &mut Message, query: &Query) {
        let mut name = query.name().clone();
        for _ in 0..30 {
            let Some(Behaviour::Recursive(records) | Behaviour::Records(records)) =
                self.names.get(&name)
            else {
                reply.metadata.response_code = ResponseCode::NXDomain;
                return;
            };
            answer(reply, &Query::query(name.clone(), query.query_type()), records);
            match records.first() {
                Some(RData::CNAME(next)) => name = next.0.clone(),
                _ => return,
            }
        }
    }
}

fn answer(reply: &mut Message, query: &Query, records: &[RData]) {
    for data in records {
        let kind = data.record_type();
        if kind == query.query_type() || kind == RecordType::CNAME {
            reply.add_answer(Record::from_rdata(query.name().clone(), 60, data.clone()));
        }
    }
}

/// A name as DNS has it.
#[must_use]
pub fn parse_name(name: &str) -> Name {
    Name::from_ascii(format!("{name}.")).unwrap()
}

/// Records as people write them.
#[must_use]
pub fn records(texts: &[&str]) -> Vec<RData> {
    texts.iter().map(|text| record(text)).collect()
}

fn record(text: &str) -> RData {
    match text.split_once(' ').unwrap() {
        ("A", address) => RData::A(A(address.parse().unwrap())),
        ("AAAA", address) => RData::AAAA(AAAA(address.parse().unwrap())),
        ("CNAME", name) => RData::CNAME(CNAME(parse_name(name))),
        other => unreachable!("{other:?}"),
    }
}
