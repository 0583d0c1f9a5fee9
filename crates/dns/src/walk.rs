//! The way from a name to its addresses: CNAME by CNAME, out of one answer or of many.
//!
//! A recursive resolver sends the whole chain at once, an authoritative server only its own part, and a loop
//! comes back from many resolvers as a bare SERVFAIL. So the chain is followed by hand: through the records of an
//! answer, on with a new question at its last name, and after SERVFAIL with a question for the CNAME alone.

use std::net::IpAddr;

use hickory_proto::rr::{Name, Record, RecordType};

use crate::reply::{Reply, addresses_of, alias_of, shown};
use crate::{End, Walk};

/// A walk under way.
pub(crate) struct Walker<'a> {
    current: Name,
    kind: RecordType,
    aliases: Vec<String>,
    visited: Vec<Name>,
    chain_limit: usize,
    is_target: &'a (dyn Fn(&str) -> bool + Sync),
}

/// What to do next.
pub(crate) enum Step {
    /// Ask this.
    Ask(Name, RecordType),
    /// There is no more to ask.
    Done(Walk),
}

impl<'a> Walker<'a> {
    pub(crate) fn new(
        name: Name,
        kind: RecordType,
        chain_limit: usize,
        is_target: &'a (dyn Fn(&str) -> bool + Sync),
    ) -> Self {
        let visited = vec![name.clone()];
        Self { current: name, kind, aliases: Vec::new(), visited, chain_limit, is_target }
    }

    pub(crate) fn begin(&self) -> Step {
        Step::Ask(self.current.clone(), self.kind)
    }

    /// Takes the reply to a question for `asked`, and says what is next. Ends after a bounded number of steps, whatever
    /// the replies are: each question after the first follows a new alias or a SERVFAIL, and a SERVFAIL is followed up once.
    pub(crate) fn take(&mut self, asked: RecordType, reply: &Reply) -> Step {
        match reply {
            Reply::Nothing(End::Servfail) if asked == self.kind => {
                Step::Ask(self.current.clone(), RecordType::CNAME)
            }
            // Not even the CNAME: the failure stands. An empty answer to this question explains nothing either.
            Reply::Nothing(_) if asked != self.kind => self.done(End::Servfail),
            Reply::Nothing(end) => self.done(*end),
            Reply::Records { records, exists } => self.read(asked, records, *exists),
        }
    }

    fn read(&mut self, asked: RecordType, records: &[Record], exists: bool) -> Step {
        let before = self.aliases.len();
        if let Some(end) = self.follow(records) {
            return self.done(end);
        }
        let addresses = addresses_of(&self.current, records);
        let moved = self.aliases.len() > before;
        if !addresses.is_empty() && asked == self.kind {
            self.arrived(addresses)
        } else if !exists {
            self.done(End::NxDomain)
        } else if moved {
            self.begin()
        } else if asked != self.kind {
            self.done(End::Servfail)
        } else {
            self.done(End::NoRecords)
        }
    }

    /// Follows the aliases among these records, and says how that ended the walk, if it did.
    fn follow(&mut self, records: &[Record]) -> Option<End> {
        while let Some(alias) = alias_of(&self.current, records) {
            let text = shown(alias);
            let reached = (self.is_target)(&text);
            self.aliases.push(text);
            if reached {
                return Some(End::Target);
            }
            if self.visited.contains(alias) {
                return Some(End::CnameLoop);
            }
            if self.aliases.len() > self.chain_limit {
                return Some(End::ChainTooLong);
            }
            self.visited.push(alias.clone());
            self.current = alias.clone();
        }
        None
    }

    /// Ends the walk where it stands.
    pub(crate) fn done(&mut self, end: End) -> Step {
        Step::Done(Walk { aliases: std::mem::take(&mut self.aliases), addresses: Vec::new(), end })
    }

    fn arrived(&mut self, addresses: Vec<IpAddr>) -> Step {
        Step::Done(Walk {
            aliases: std::mem::take(&mut self.aliases),
            addresses,
            end: End::Addresses,
        })
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::RData;
    use hickory_proto::rr::rdata::{A, CNAME};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const CHAIN_LIMIT: usize = 5;

    fn name() -> impl Strategy<Value = Name> {
        (0..9).prop_map(|n| Name::from_ascii(format!("n{n}.example.")).unwrap())
    }

    fn record() -> impl Strategy<Value = Record> {
        let alias = name().prop_map(|alias| RData::CNAME(CNAME(alias)));
        let address = any::<std::net::Ipv4Addr>().prop_map(|address| RData::A(A(address)));
        (name(), prop_oneof![3 => alias, 1 => address])
            .prop_map(|(name, data)| Record::from_rdata(name, 60, data))
    }

    fn reply() -> impl Strategy<Value = Reply> {
        let ends = vec![End::NoRecords, End::NxDomain, End::Servfail, End::Refused, End::Timeout];
        let records = (prop::collection::vec(record(), 0..6), any::<bool>());
        prop_oneof![
            4 => records.prop_map(|(records, exists)| Reply::Records { records, exists }),
            1 => select(ends).prop_map(Reply::Nothing),
        ]
    }

    proptest! {
        #[test]
        fn a_walk_ends_whatever_the_replies_are(replies in prop::collection::vec(reply(), 40)) {
            let start = Name::from_ascii("n0.example.").unwrap();
            let mut walker = Walker::new(start, RecordType::A, CHAIN_LIMIT, &|name| name == "n8.example");
            let mut step = walker.begin();
            let mut asked = 0;
            for reply in &replies {
                let Step::Ask(_, kind) = step else { break };
                asked += 1;
                step = walker.take(kind, reply);
            }
            let Step::Done(walk) = step else { return Err(TestCaseError::fail("it goes on for ever")) };
            prop_assert!(asked <= 2 * (CHAIN_LIMIT + 2), "{asked} questions");
            prop_assert!(walk.aliases.len() <= CHAIN_LIMIT + 1);
            prop_assert_eq!(walk.end == End::Target, walk.aliases.iter().any(|alias| alias == "n8.example"));
            prop_assert_eq!(walk.end == End::Addresses, !walk.addresses.is_empty());
        }
    }
}
