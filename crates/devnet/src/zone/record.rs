//! What a name of the zone can be set to, parsed once from what a person typed.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::rdata::{A, AAAA, CAA, CNAME, NS, TXT};
use hickory_proto::rr::{Name, RData, RecordType};

use super::ZoneError;

/// What every type there is looks like, for errors.
pub(super) const TYPES: &str = "A, AAAA, CNAME, TXT, CAA, NS; or NONE (does not exist), SERVFAIL, REFUSED, TIMEOUT (no answer), each with the value -";

/// Data at a name, or the way in which asking for it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(Name),
    Txt(String),
    Caa { flags: u8, tag: String, value: String },
    Ns(Name),
    Fails(Failure),
}

/// How asking for a name fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Absent,
    Servfail,
    Refused,
    Timeout,
}

impl Failure {
    const ALL: [(Failure, &'static str); 4] = [
        (Failure::Absent, "NONE"),
        (Failure::Servfail, "SERVFAIL"),
        (Failure::Refused, "REFUSED"),
        (Failure::Timeout, "TIMEOUT"),
    ];

    fn parse(kind: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == kind).map(|(failure, _)| *failure)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(failure, _)| *failure == self).map_or("", |(_, name)| name)
    }
}

impl Value {
    /// Parses `TYPE VALUE`.
    pub(super) fn parse(kind: &str, text: &str) -> Result<Self, ZoneError> {
        let kind = kind.to_ascii_uppercase();
        let text = text.trim();
        let bad = |expected: &'static str| ZoneError::BadValue {
            kind: kind.clone(),
            value: text.to_owned(),
            expected,
        };
        if let Some(failure) = Failure::parse(&kind) {
            return match text {
                "-" | "" => Ok(Value::Fails(failure)),
                _ => Err(bad("the value -")),
            };
        }
        match kind.as_str() {
            "A" => text.parse().map(Value::A).map_err(|_| bad("an IPv4 address")),
            "AAAA" => text.parse().map(Value::Aaaa).map_err(|_| bad("an IPv6 address")),
            "CNAME" => parse_name(text).map(Value::Cname).ok_or_else(|| bad("a name")),
            "NS" => parse_name(text).map(Value::Ns).ok_or_else(|| bad("a name")),
            "TXT" => txt(text).ok_or_else(|| bad("a text of at most 4096 characters")),
            "CAA" => caa(text).ok_or_else(|| bad("FLAGS TAG \"VALUE\", as 0 issue \"ca.test\"")),
            _ => Err(ZoneError::UnknownType { kind }),
        }
    }

    /// The type, as it is typed.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::A(_) => "A",
            Value::Aaaa(_) => "AAAA",
            Value::Cname(_) => "CNAME",
            Value::Txt(_) => "TXT",
            Value::Caa { .. } => "CAA",
            Value::Ns(_) => "NS",
            Value::Fails(failure) => failure.name(),
        }
    }

    /// The record type on the wire.
    pub(super) fn record_type(&self) -> Option<RecordType> {
        match self {
            Value::A(_) => Some(RecordType::A),
            Value::Aaaa(_) => Some(RecordType::AAAA),
            Value::Cname(_) => Some(RecordType::CNAME),
            Value::Txt(_) => Some(RecordType::TXT),
            Value::Caa { .. } => Some(RecordType::CAA),
            Value::Ns(_) => Some(RecordType::NS),
            Value::Fails(_) => None,
        }
    }

    /// The data on the wire.
    pub(super) fn data(&self) -> Option<RData> {
        match self {
            Value::A(address) => Some(RData::A(A(*address))),
            Value::Aaaa(address) => Some(RData::AAAA(AAAA(*address))),
            Value::Cname(name) => Some(RData::CNAME(CNAME(name.clone()))),
            Value::Ns(name) => Some(RData::NS(NS(name.clone()))),
            Value::Txt(text) => {
                let strings = text.as_bytes().chunks(255).collect();
                Some(RData::TXT(TXT::from_bytes(strings)))
            }
            Value::Caa { flags, tag, value } => {
                let mut caa = CAA::new_issue(flags & 0x80 != 0, None, Vec::new());
                caa.reserved_flags = flags & 0x7f;
                caa.tag.clone_from(tag);
                caa.value = value.as_bytes().to_vec();
                Some(RData::CAA(caa))
            }
            Value::Fails(_) => None,
        }
    }

    /// Whether a name can have both: a CNAME and a failure stand alone.
    pub(super) fn stands_beside(&self, other: &Value) -> bool {
        let alone = |value: &Value| matches!(value, Value::Cname(_) | Value::Fails(_));
        !alone(self) && !alone(other)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::A(address) => write!(f, "{address}"),
            Value::Aaaa(address) => write!(f, "{address}"),
            Value::Cname(name) | Value::Ns(name) => f.write_str(&super::key(name)),
            Value::Txt(text) => f.write_str(text),
            Value::Caa { flags, tag, value } => write!(f, "{flags} {tag} \"{value}\""),
            Value::Fails(_) => f.write_str("-"),
        }
    }
}

/// Parses a name, with or without the dot at its end.
pub(super) fn parse_name(text: &str) -> Option<Name> {
    let text = text.trim();
    let relative = text.strip_suffix('.').unwrap_or(text);
    let labels_are_there = relative.split('.').all(|label| !label.is_empty());
    let mut name = Name::from_str_relaxed(relative).ok().filter(|_| labels_are_there)?;
    name.set_fqdn(true);
    Some(name.to_lowercase())
}

fn txt(text: &str) -> Option<Value> {
    let unquoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    (unquoted.len() <= 4096).then(|| Value::Txt(unquoted.to_owned()))
}

fn caa(text: &str) -> Option<Value> {
    let (flags, rest) = text.split_once(' ')?;
    let (tag, value) = rest.trim_start().split_once(' ')?;
    let plausible = !tag.is_empty() && tag.bytes().all(|b| b.is_ascii_alphanumeric());
    let value = value.trim();
    let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
    let (flags, tag, value) = (flags.parse().ok()?, tag.to_owned(), value.to_owned());
    (plausible && value.len() <= 4096).then_some(Value::Caa { flags, tag, value })
}
