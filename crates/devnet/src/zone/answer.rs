//! One DNS message in, at most one out. Pure but for the count of faults.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, SOA, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use super::record::{Failure, Value, parse_name};
use super::records::{Found, Records};
use super::{APEX, key};
use crate::faults::{FaultKind, Faults};

/// The longest CNAME chain that is followed.
const CHAIN: usize = 16;

/// The largest answer over UDP, whatever the client says it can take.
const UDP_PAYLOAD: u16 = 1232;

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// Answers a message; `None` is silence.
pub(super) fn answer(
    records: &Records,
    faults: &Faults,
    request: &[u8],
    transport: Transport,
) -> Option<Vec<u8>> {
    let Ok(request) = Message::from_vec(request) else { return malformed(request) };
    if request.metadata.message_type == MessageType::Response {
        return None;
    }
    let mut reply = Reply::to(&request);
    match request.queries.as_slice() {
        _ if request.metadata.op_code != OpCode::Query => reply.code(ResponseCode::NotImp),
        _ if request.edns.as_ref().is_some_and(|edns| edns.version() > 0) => {
            reply.code(ResponseCode::BADVERS);
        }
        [query] => reply.look_up(records, faults, query),
        _ => reply.code(ResponseCode::FormErr),
    }
    reply.encode(transport, request.max_payload())
}

/// What cannot be read gets its id back, if that much could be read.
fn malformed(request: &[u8]) -> Option<Vec<u8>> {
    let (id, flags) = match request {
        [high, low, flags, ..] if request.len() >= 12 => (u16::from_be_bytes([*high, *low]), flags),
        _ => return None,
    };
    let is_response = flags & 0x80 != 0;
    let error = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
    (!is_response).then(|| error.to_vec().ok()).flatten()
}

struct Reply {
    message: Message,
    silent: bool,
}

impl Reply {
    fn to(request: &Message) -> Self {
        let mut message = Message::response(request.metadata.id, request.metadata.op_code);
        message.metadata.recursion_desired = request.metadata.recursion_desired;
        message.metadata.checking_disabled = request.metadata.checking_disabled;
        message.add_queries(request.queries.iter().cloned());
        if request.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(UDP_PAYLOAD).set_version(0);
            message.set_edns(edns);
        }
        Self { message, silent: false }
    }

    fn code(&mut self, code: ResponseCode) {
        self.message.metadata.response_code = code;
    }

    fn look_up(&mut self, records: &Records, faults: &Faults, query: &Query) {
        let served = query.query_class() == DNSClass::IN
            && !matches!(query.query_type(), RecordType::AXFR | RecordType::IXFR);
        if !served {
            return self.code(ResponseCode::Refused);
        }
        let name = key(query.name());
        if faults.strikes_name(FaultKind::DnsTimeout, &name) {
            self.silent = true;
        } else if faults.strikes_name(FaultKind::DnsServfail, &name) {
            self.code(ResponseCode::ServFail);
        } else if faults.strikes_name(FaultKind::DnsWrong, &name) {
            self.mislead(query);
        } else {
            self.follow(records, query);
        }
    }

    /// Follows the chain from the name asked for as far as the zone knows it.
    fn follow(&mut self, records: &Records, query: &Query) {
        let mut owner = query.name().clone();
        let mut passed = Vec::new();
        self.message.metadata.authoritative = true;
        while passed.len() < CHAIN {
            let name = key(&owner);
            match records.find(&name) {
                Found::Foreign if passed.is_empty() => return self.refuse(),
                Found::Foreign => return,
                Found::Fails(failure) => return self.fail(records, &name, failure),
                Found::Values(values) => {
                    if self.add(records, &owner, query.query_type(), &values) {
                        return;
                    }
                    let Some(target) = cname(&values) else { return self.negative(records, &name) };
                    self.record(&owner, RData::CNAME(CNAME(target.clone())));
                    passed.push(name);
                    if passed.contains(&key(target)) {
                        return;
                    }
                    owner = target.clone();
                }
            }
        }
    }

    fn refuse(&mut self) {
        self.message.metadata.authoritative = false;
        self.code(ResponseCode::Refused);
    }

    fn fail(&mut self, records: &Records, name: &str, failure: Failure) {
        match failure {
            Failure::Absent => {
                self.code(ResponseCode::NXDomain);
                self.negative(records, name);
            }
            Failure::Servfail => self.code(ResponseCode::ServFail),
            Failure::Refused => self.refuse(),
            Failure::Timeout => self.silent = true,
        }
    }

    /// Adds what was asked for, if it is there.
    fn add(
        &mut self,
        records: &Records,
        owner: &Name,
        asked: RecordType,
        values: &[Value],
    ) -> bool {
        let before = self.message.answers.len();
        let wanted = |kind: RecordType| asked == kind || asked == RecordType::ANY;
        if records.zone_of(&key(owner)) == Some(key(owner).as_str()) {
            if wanted(RecordType::SOA) {
                self.record(owner, soa());
            }
            let own_servers = values.iter().any(|value| matches!(value, Value::Ns(_)));
            if wanted(RecordType::NS) && !own_servers {
                self.record(owner, RData::NS(NS(server())));
            }
        }
        for value in values.iter().filter(|value| value.record_type().is_some_and(wanted)) {
            if let Some(data) = value.data() {
                self.record(owner, data);
            }
        }
        self.message.answers.len() > before
    }

    fn record(&mut self, owner: &Name, data: RData) {
        self.message.add_answer(Record::from_rdata(owner.clone(), 0, data));
    }

    /// There is nothing of what was asked: the SOA says on whose authority.
    fn negative(&mut self, records: &Records, name: &str) {
        let zone = parse_name(records.zone_of(name).unwrap_or(APEX)).unwrap_or_default();
        self.message.add_authority(Record::from_rdata(zone, 0, soa()));
    }

    fn mislead(&mut self, query: &Query) {
        self.message.metadata.authoritative = true;
        let data = match query.query_type() {
            RecordType::A => RData::A(A::new(192, 0, 2, 1)),
            RecordType::AAAA => RData::AAAA(AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            RecordType::TXT => RData::TXT(TXT::new(vec!["a wrong answer".to_owned()])),
            RecordType::CNAME => {
                RData::CNAME(CNAME(parse_name("elsewhere.invalid").unwrap_or_default()))
            }
            _ => return,
        };
        self.record(query.name(), data);
    }

    fn encode(self, transport: Transport, payload: u16) -> Option<Vec<u8>> {
        if self.silent {
            return None;
        }
        let bytes = self.message.to_vec().ok()?;
        let limit = match transport {
            Transport::Udp => payload.clamp(512, UDP_PAYLOAD),
            Transport::Tcp => u16::MAX,
        };
        if bytes.len() <= usize::from(limit) {
            return Some(bytes);
        }
        self.message.truncate().to_vec().ok()
    }
}

fn cname(values: &[Value]) -> Option<&Name> {
    values.iter().find_map(|value| match value {
        Value::Cname(target) => Some(target),
        _ => None,
    })
}

fn server() -> Name {
    parse_name("ns.holdfast.test").unwrap_or_default()
}

fn soa() -> RData {
    let mailbox = parse_name("development-only.holdfast.test").unwrap_or_default();
    RData::SOA(SOA::new(server(), mailbox, 1, 60, 60, 3600, 0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn records() -> Records {
        let mut records =
            Records { set: BTreeMap::new(), edge: vec!["127.0.0.1".parse().unwrap()] };
        let set = [
            ("loop.test", "CNAME", "loop.test"),
            ("txt.test", "TXT", "text"),
            ("gone.test", "NONE", "-"),
        ];
        for (name, kind, value) in set {
            records.set(&parse_name(name).unwrap(), Value::parse(kind, value).unwrap());
        }
        records
    }

    fn ask(bytes: &[u8]) {
        for transport in [Transport::Udp, Transport::Tcp] {
            let reply = answer(&records(), &Faults::default(), bytes, transport);
            if let Some(reply) = reply {
                assert!(Message::from_vec(&reply).is_ok(), "{reply:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            ask(&bytes);
        }

        #[test]
        fn no_damage_to_a_good_question_makes_it_panic(
            name in "(_acme\\.|\\*\\.)?([a-z]{1,12}\\.){0,6}(test|example)",
            kind in any::<u16>(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut message = Message::query();
            message.add_query(Query::query(parse_name(&name).unwrap(), RecordType::from(kind)));
            message.set_edns(Edns::new());
            let mut bytes = message.to_vec().unwrap();
            ask(&bytes);
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            ask(&bytes);
        }
    }
}
