//! One question as it is sent, and what bytes that come back amount to. Pure.

use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};

use crate::End;
use crate::reply::Reply;

/// A question under an id that nobody else can guess.
pub(crate) struct Question {
    id: u16,
    query: Query,
    bytes: Vec<u8>,
}

/// What bytes that came back are to a question.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The answer.
    Answer(Reply),
    /// The answer does not fit: ask over TCP.
    Truncated,
    /// Its id, and nothing that can be read.
    Garbage,
    /// No answer to this question.
    Strange,
}

impl Question {
    /// None where the name cannot be asked for.
    pub(crate) fn new(name: Name, kind: RecordType) -> Option<Self> {
        let query = Query::query(name, kind);
        let mut message = Message::query();
        message.metadata.recursion_desired = true;
        message.add_query(query.clone());
        let bytes = message.to_vec().ok()?;
        Some(Self { id: message.metadata.id, query, bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads what came back.
    pub(crate) fn heard(&self, bytes: &[u8]) -> Heard {
        if bytes.get(..2) != Some(self.id.to_be_bytes().as_slice()) {
            return Heard::Strange;
        }
        let Ok(message) = Message::from_vec(bytes) else { return Heard::Garbage };
        let metadata = &message.metadata;
        if metadata.message_type != MessageType::Response || !self.is_asked_in(&message) {
            return Heard::Strange;
        }
        if metadata.truncation {
            return Heard::Truncated;
        }
        let exists = metadata.response_code != ResponseCode::NXDomain;
        Heard::Answer(match metadata.response_code {
            ResponseCode::NoError | ResponseCode::NXDomain if !message.answers.is_empty() => {
                Reply::Records { records: message.answers, exists }
            }
            ResponseCode::NoError => Reply::Nothing(End::NoRecords),
            ResponseCode::NXDomain => Reply::Nothing(End::NxDomain),
            ResponseCode::Refused => Reply::Nothing(End::Refused),
            _ => Reply::Nothing(End::Servfail),
        })
    }

    /// Some servers leave the question out of a refusal.
    fn is_asked_in(&self, message: &Message) -> bool {
        let failed = !matches!(
            message.metadata.response_code,
            ResponseCode::NoError | ResponseCode::NXDomain
        );
        match message.queries.as_slice() {
            [] => failed,
            // Names are equal in any case of their letters.
            [query] => *query == self.query,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::rdata::A;
    use hickory_proto::rr::{RData, Record};

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn question() -> Question {
        Question::new(name("shop.example.com."), RecordType::A).unwrap()
    }

    /// A good answer, changed before it is sent.
    fn heard(change: impl FnOnce(&mut Message)) -> Heard {
        let question = question();
        let mut message = Message::response(question.id, hickory_proto::op::OpCode::Query);
        message.add_query(question.query.clone());
        let address = RData::A(A("192.0.2.1".parse().unwrap()));
        message.add_answer(Record::from_rdata(name("shop.example.com."), 60, address));
        change(&mut message);
        question.heard(&message.to_vec().unwrap())
    }

    fn fails(message: &mut Message, code: ResponseCode) {
        message.answers.clear();
        message.metadata.response_code = code;
    }

    #[test]
    fn the_answer_to_this_question_is_heard() {
        assert!(matches!(heard(|_| ()), Heard::Answer(Reply::Records { exists: true, .. })));
        let upper = Query::query(name("SHOP.Example.COM."), RecordType::A);
        assert!(matches!(heard(|message| message.queries = vec![upper]), Heard::Answer(_)));
        assert!(matches!(heard(|message| message.metadata.truncation = true), Heard::Truncated));
    }

    #[test]
    fn an_answer_to_anything_else_is_not() {
        let other = Query::query(name("other.example.com."), RecordType::A);
        let kind = Query::query(name("shop.example.com."), RecordType::AAAA);
        for queries in [vec![], vec![other.clone()], vec![kind], vec![other.clone(), other]] {
            assert!(matches!(heard(|message| message.queries = queries), Heard::Strange));
        }
        assert!(matches!(heard(|message| message.metadata.id ^= 1), Heard::Strange));
        let query = |message: &mut Message| message.metadata.message_type = MessageType::Query;
        assert!(matches!(heard(query), Heard::Strange));
        assert!(matches!(question().heard(&[]), Heard::Strange));
    }

    #[test]
    fn a_refusal_counts_without_the_question() {
        for (code, end) in [
            (ResponseCode::Refused, End::Refused),
            (ResponseCode::ServFail, End::Servfail),
            (ResponseCode::FormErr, End::Servfail),
        ] {
            let reply = heard(|message| {
                fails(message, code);
                message.queries.clear();
            });
            assert!(matches!(reply, Heard::Answer(Reply::Nothing(told)) if told == end), "{code}");
        }
    }

    #[test]
    fn no_records_and_no_name_are_told_apart() {
        for (code, end) in
            [(ResponseCode::NoError, End::NoRecords), (ResponseCode::NXDomain, End::NxDomain)]
        {
            let reply = heard(|message| fails(message, code));
            assert!(matches!(reply, Heard::Answer(Reply::Nothing(told)) if told == end), "{code}");
        }
    }

    #[test]
    fn what_cannot_be_read_under_the_right_id_is_garbage() {
        let question = question();
        let mut bytes = question.id.to_be_bytes().to_vec();
        bytes.extend([0x81, 0x80, 0, 1, 0, 9, 0, 0, 0, 0, 0xff]);
        assert!(matches!(question.heard(&bytes), Heard::Garbage));
    }
}
