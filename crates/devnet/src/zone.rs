//! The DNS zone: what a customer would set at a registrar, and an authoritative server for it.
//!
//! Every name under `.test` is a CNAME to `edge.holdfast.test`, and that is the edge's address, until it is
//! set. Several values of A, AAAA, TXT, CAA and NS append; a CNAME stands alone. Nothing is cached anywhere: every
//! answer has a TTL of 0. The zone knows no ACME.

mod answer;
mod record;
mod records;
mod serve;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hickory_proto::rr::Name;
use serde::{Deserialize, Serialize};

use self::record::Value;
use self::records::Records;
pub(crate) use self::serve::ZoneServer;
use crate::journal::{Journal, Line};

/// The zone everything is in.
pub(crate) const APEX: &str = "test";

/// Where every name leads until it is set.
pub const EDGE: &str = "edge.holdfast.test";

const KIND: &str = "record";

/// Why a record could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// Not a DNS name.
    #[error(
        "{name:?} is not a DNS name: it has labels of 1 to 63 characters with dots between them"
    )]
    BadName {
        /// What was given.
        name: String,
    },
    /// A type the zone does not have.
    #[error("the zone has no type {kind:?}; the types are {}", record::TYPES)]
    UnknownType {
        /// What was given.
        kind: String,
    },
    /// A value that its type cannot have.
    #[error("{value:?} is not a value for {kind}: it takes {expected}")]
    BadValue {
        /// The type.
        kind: String,
        /// What was given.
        value: String,
        /// What it should have been.
        expected: &'static str,
    },
}

/// One record that was set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ZoneRecord {
    /// The name, in lower case and without a dot at its end.
    pub name: String,
    /// `A`, `AAAA`, `CNAME`, `TXT`, `CAA`, `NS`, `NONE`, `SERVFAIL`, `REFUSED` or `TIMEOUT`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The value, as it would be typed.
    pub value: String,
}

/// The zone's records; clones share them.
#[derive(Clone)]
pub struct Zone(Arc<Inner>);

struct Inner {
    records: RwLock<Records>,
    journal: Journal,
}

impl Zone {
    /// A zone whose edge has these addresses, and what a journal remembers of it.
    pub(crate) fn new(
        edge: Vec<IpAddr>,
        journal: Journal,
        lines: &[Line],
    ) -> Result<Self, ZoneError> {
        let zone = Self(Arc::new(Inner {
            records: RwLock::new(Records { set: BTreeMap::new(), edge }),
            journal,
        }));
        for line in lines.iter().filter(|line| line.kind == KIND) {
            let kept: Vec<ZoneRecord> = line.row().unwrap_or_default();
            for record in kept {
                zone.insert(&record.name, &record.kind, &record.value)?;
            }
        }
        Ok(zone)
    }

    /// Sets a record: `zone.set("shop.test", "A", "127.0.0.2")`.
    pub fn set(&self, name: &str, kind: &str, value: &str) -> Result<(), ZoneError> {
        let name = self.insert(name, kind, value)?;
        self.note(&name);
        Ok(())
    }

    /// Makes a name what it was before anything was set; whether anything had been.
    pub fn clear(&self, name: &str) -> Result<bool, ZoneError> {
        let name = key(&parse(name)?);
        let cleared = self.records_mut().set.remove(&name).is_some();
        self.note(&name);
        Ok(cleared)
    }

    /// Clears every name.
    pub fn clear_all(&self) {
        let set = std::mem::take(&mut self.records_mut().set);
        set.keys().for_each(|name| self.note(name));
    }

    /// What was set, ordered by name.
    pub fn list(&self) -> Vec<ZoneRecord> {
        let records = self.records();
        records.set.iter().flat_map(|(name, values)| listed(name, values)).collect()
    }

    /// What was set of one name.
    pub fn list_name(&self, name: &str) -> Result<Vec<ZoneRecord>, ZoneError> {
        let name = key(&parse(name)?);
        let records = self.records();
        Ok(records.set.get(&name).map(|values| listed(&name, values)).unwrap_or_default())
    }

    fn insert(&self, name: &str, kind: &str, value: &str) -> Result<String, ZoneError> {
        let (name, value) = (parse(name)?, Value::parse(kind, value)?);
        self.records_mut().set(&name, value);
        Ok(key(&name))
    }

    fn note(&self, name: &str) {
        let records = self.records();
        let row = records.set.get(name).map(|values| listed(name, values));
        self.0.journal.note(KIND, name, &row);
    }

    fn records(&self) -> RwLockReadGuard<'_, Records> {
        self.0.records.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn records_mut(&self) -> RwLockWriteGuard<'_, Records> {
        self.0.records.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listed(name: &str, values: &[Value]) -> Vec<ZoneRecord> {
    let records = values.iter().map(|value| ZoneRecord {
        name: name.to_owned(),
        kind: value.kind().to_owned(),
        value: value.to_string(),
    });
    records.collect()
}

fn parse(name: &str) -> Result<Name, ZoneError> {
    record::parse_name(name).ok_or_else(|| ZoneError::BadName { name: name.to_owned() })
}

/// How a name is written here: lower case, no dot at its end.
fn key(name: &Name) -> String {
    let text = name.to_lowercase().to_ascii();
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Zone {
        Zone::new(vec!["127.0.0.1".parse().unwrap()], Journal::memory(), &[]).unwrap()
    }

    #[test]
    fn what_is_set_is_listed_as_typed() {
        let zone = empty();
        let cases = [
            ("Shop.TEST.", "a", "127.0.0.2"),
            ("shop.test", "AAAA", "::1"),
            ("www.test", "CNAME", "shop.test"),
            ("_acme-challenge.shop.test", "TXT", "token"),
            ("shop.test", "CAA", "128 issue \"ca.test; accounturi=x\""),
            ("gone.test", "NONE", "-"),
            ("bücher.test", "NS", "ns.test"),
        ];
        for (name, kind, value) in cases {
            zone.set(name, kind, value).unwrap();
        }
        let listed = zone.list();
        assert_eq!(listed.len(), cases.len());
        assert!(listed.iter().any(|one| one.name == "xn--bcher-kva.test" && one.kind == "NS"));
        let again = empty();
        for one in &listed {
            again.set(&one.name, &one.kind, &one.value).unwrap();
        }
        assert_eq!(again.list(), listed);
        assert!(again.clear("shop.test").unwrap());
        assert!(!again.clear("shop.test").unwrap());
        assert_eq!(again.list_name("shop.test").unwrap(), []);
    }

    #[test]
    fn errors_name_the_value_and_what_is_valid() {
        let zone = empty();
        let cases = [
            ("shop.test", "MX", "mail.test", "the types are A, AAAA"),
            ("shop.test", "A", "::1", "an IPv4 address"),
            ("shop.test", "AAAA", "127.0.0.1", "an IPv6 address"),
            ("shop.test", "CNAME", "a..b", "a name"),
            ("shop.test", "CAA", "issue ca.test", "FLAGS TAG"),
            ("shop.test", "NONE", "127.0.0.1", "the value -"),
            ("", "A", "127.0.0.1", "is not a DNS name"),
            (".test", "A", "127.0.0.1", "is not a DNS name"),
        ];
        for (name, kind, value, expected) in cases {
            let refused = zone.set(name, kind, value).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
        assert_eq!(zone.list(), []);
    }
}
