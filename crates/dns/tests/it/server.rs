//! An authoritative DNS server for tests, over UDP and TCP, that also misbehaves on demand.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// What happens to questions about a name.
#[derive(Clone)]
pub(crate) enum Behaviour {
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
    /// No reply.
    Silent,
    /// A reply with the right id and then these bytes.
    Garbage(Vec<u8>),
}

/// A running server; it ends with the test's runtime.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    zone: Arc<Zone>,
}

impl Server {
    /// Serves these names; any other does not exist.
    pub(crate) async fn start(zone: impl IntoIterator<Item = (&str, Behaviour)>) -> Self {
        let zone = zone.into_iter().map(|(name, behaviour)| (parse_name(name), behaviour));
        let zone = Arc::new(Zone { names: zone.collect(), asked: Mutex::default() });
        let (udp, tcp) = sockets().await;
        let address = udp.local_addr().unwrap();
        tokio::spawn(serve_udp(udp, zone.clone()));
        tokio::spawn(serve_tcp(tcp, zone.clone()));
        Self { address, zone }
    }

    /// How many questions there were about a name.
    pub(crate) fn questions(&self, name: &str) -> usize {
        self.zone.asked.lock().unwrap().get(&parse_name(name)).copied().unwrap_or(0)
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

async fn serve_udp(socket: UdpSocket, zone: Arc<Zone>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
        if let Some(reply) = zone.reply(&buffer[..length], false) {
            socket.send_to(&reply, peer).await.unwrap();
        }
    }
}

async fn serve_tcp(listener: TcpListener, zone: Arc<Zone>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let zone = zone.clone();
        tokio::spawn(async move { converse(stream, &zone).await.ok() });
    }
}

async fn converse(mut stream: TcpStream, zone: &Zone) -> std::io::Result<()> {
    loop {
        let length = stream.read_u16().await?;
        let mut question = vec![0; length.into()];
        stream.read_exact(&mut question).await?;
        if let Some(reply) = zone.reply(&question, true) {
            stream.write_u16(u16::try_from(reply.len()).unwrap()).await?;
            stream.write_all(&reply).await?;
        }
    }
}

struct Zone {
    names: HashMap<Name, Behaviour>,
    asked: Mutex<HashMap<Name, usize>>,
}

impl Zone {
    fn reply(&self, question: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let question = Message::from_vec(question).ok()?;
        let query = question.queries.first()?.clone();
        *self.asked.lock().unwrap().entry(query.name().clone()).or_default() += 1;
        let mut reply = Message::response(question.metadata.id, question.metadata.op_code);
        reply.add_query(query.clone());
        match self.names.get(query.name()) {
            None if query.name().is_root() => reply.metadata.response_code = ResponseCode::Refused,
            None => reply.metadata.response_code = ResponseCode::NXDomain,
            Some(Behaviour::Records(records)) => answer(&mut reply, &query, records),
            Some(Behaviour::Split(_, records)) if query.query_type() == RecordType::AAAA => {
                answer(&mut reply, &query, records);
            }
            Some(Behaviour::Split(records, _)) => answer(&mut reply, &query, records),
            Some(Behaviour::Recursive(_)) => self.chase(&mut reply, &query),
            Some(Behaviour::Fails(_, records)) if query.query_type() == RecordType::CNAME => {
                answer(&mut reply, &query, records);
            }
            Some(Behaviour::Fails(code, _)) => reply.metadata.response_code = *code,
            Some(Behaviour::Truncates(records)) if tcp => answer(&mut reply, &query, records),
            Some(Behaviour::Truncates(_)) => reply.metadata.truncation = true,
            Some(Behaviour::Silent) => return None,
            Some(Behaviour::Garbage(bytes)) => {
                let id = question.metadata.id.to_be_bytes();
                return Some(id.into_iter().chain(bytes.iter().copied()).collect());
            }
        }
        Some(reply.to_vec().unwrap())
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

pub(crate) fn parse_name(name: &str) -> Name {
    Name::from_ascii(format!("{name}.")).unwrap()
}

/// Records as people write them.
pub(crate) fn records(texts: &[&str]) -> Vec<RData> {
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
