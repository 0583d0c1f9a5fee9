//! One DNS answer, read without asking: where it takes a walk.

use std::net::IpAddr;

use hickory_proto::rr::{Name, RData, Record};

use crate::End;

/// What a question brought back.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Records, and whether the name at the end of them exists.
    Records { records: Vec<Record>, exists: bool },
    /// No records, or no answer.
    Nothing(End),
}

/// The alias a name has among these records.
pub(crate) fn alias_of<'a>(name: &Name, records: &'a [Record]) -> Option<&'a Name> {
    records.iter().find_map(|record| match &record.data {
        RData::CNAME(alias) if record.name == *name => Some(&alias.0),
        _ => None,
    })
}

/// The addresses a name has among these records, sorted, each once.
pub(crate) fn addresses_of(name: &Name, records: &[Record]) -> Vec<IpAddr> {
    let address = |record: &Record| match &record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    let named = records.iter().filter(|record| record.name == *name);
    let mut addresses: Vec<_> = named.filter_map(address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// A name out of DNS as people write it.
pub(crate) fn shown(name: &Name) -> String {
    let text = name.to_lowercase().to_ascii();
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}
