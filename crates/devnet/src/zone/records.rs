//! What the zone holds of a name: what was set, or what holds for every name of `.test`. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hickory_proto::rr::Name;

use super::record::{Failure, Value};
use super::{APEX, EDGE, key};

/// What was set, by name, and the address of the edge.
pub(super) struct Records {
    pub(super) set: BTreeMap<String, Vec<Value>>,
    pub(super) edge: Vec<IpAddr>,
}

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It exists, with these values; perhaps none.
    Values(Vec<Value>),
    /// Asking for it fails in this way.
    Fails(Failure),
    /// It is none of this server's business.
    Foreign,
}

impl Records {
    /// Sets one more value of a name, dropping what cannot stand beside it.
    pub(super) fn set(&mut self, name: &Name, value: Value) {
        let values = self.set.entry(key(name)).or_default();
        values.retain(|other| other != &value && value.stands_beside(other));
        values.push(value);
    }

    /// What the zone says of a name.
    pub(super) fn find(&self, name: &str) -> Found {
        if let Some(values) = self.set.get(name) {
            return found(values);
        }
        if let Some(found) = self.by_ancestor(name) {
            return found;
        }
        match self.zone_of(name) {
            Some(APEX) if name == APEX => Found::Values(Vec::new()),
            Some(APEX) => Found::Values(self.standard(name)),
            Some(_) if self.is_empty_ancestor(name) => Found::Values(Vec::new()),
            Some(_) => Found::Fails(Failure::Absent),
            None => Found::Foreign,
        }
    }

    /// The name of the zone that a name belongs to, if it is one of ours.
    pub(super) fn zone_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        if name == APEX || name.ends_with(".test") {
            return Some(APEX);
        }
        let topmost = ancestors(name).chain([name]).filter(|one| self.set.contains_key(*one));
        let topmost = topmost.min_by_key(|one| one.len());
        topmost.or_else(|| self.is_empty_ancestor(name).then_some(name))
    }

    /// A wildcard above a name speaks for it, and nothing exists below a name that does not.
    fn by_ancestor(&self, name: &str) -> Option<Found> {
        ancestors(name).find_map(|ancestor| {
            if let Some(values) = self.set.get(&format!("*.{ancestor}")) {
                return Some(found(values));
            }
            let absent = [Value::Fails(Failure::Absent)];
            let above = self.set.get(ancestor)?;
            (above.as_slice() == absent).then_some(Found::Fails(Failure::Absent))
        })
    }

    fn standard(&self, name: &str) -> Vec<Value> {
        if name != EDGE {
            return super::record::parse_name(EDGE).map(Value::Cname).into_iter().collect();
        }
        let addresses = self.edge.iter().map(|address| match address {
            IpAddr::V4(address) => Value::A(*address),
            IpAddr::V6(address) => Value::Aaaa(*address),
        });
        addresses.collect()
    }

    fn is_empty_ancestor(&self, name: &str) -> bool {
        let below = |set: &str| set.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
        self.set.keys().any(|set| below(set))
    }
}

fn found(values: &[Value]) -> Found {
    match values {
        [Value::Fails(failure)] => Found::Fails(*failure),
        values => Found::Values(values.to_vec()),
    }
}

/// The names above a name, nearest first, without the root.
fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(name.split_once('.'), |(_, rest)| rest.split_once('.'))
        .map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::super::record::parse_name;
    use super::*;

    fn records(set: &[(&str, &str, &str)]) -> Records {
        let edge = vec!["127.0.0.1".parse().unwrap()];
        let mut records = Records { set: BTreeMap::new(), edge };
        for (name, kind, value) in set {
            records.set(&parse_name(name).unwrap(), Value::parse(kind, value).unwrap());
        }
        records
    }

    fn check(set: &[(&str, &str, &str)], name: &str, expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(kind, value)| Value::parse(kind, value).unwrap());
        assert_eq!(records(set).find(name), Found::Values(expected.collect()), "{name}");
    }

    #[test]
    fn every_name_under_test_leads_to_the_edge_until_set() {
        let edge = [("CNAME", "edge.holdfast.test")];
        check(&[], "shop.test", &edge);
        check(&[], "a.b.c.test", &edge);
        check(&[], "edge.holdfast.test", &[("A", "127.0.0.1")]);
        check(&[("shop.test", "A", "127.0.0.2")], "shop.test", &[("A", "127.0.0.2")]);
        check(&[("shop.test", "A", "127.0.0.2")], "www.shop.test", &edge);
        check(&[], "test", &[]);
    }

    #[test]
    fn values_append_and_a_cname_stands_alone() {
        let several = [("a.test", "A", "127.0.0.1"), ("a.test", "A", "127.0.0.2")];
        check(&several, "a.test", &[("A", "127.0.0.1"), ("A", "127.0.0.2")]);
        let again = [("a.test", "TXT", "x"), ("a.test", "TXT", "x")];
        check(&again, "a.test", &[("TXT", "x")]);
        let moved = [("a.test", "A", "127.0.0.1"), ("a.test", "CNAME", "b.test")];
        check(&moved, "a.test", &[("CNAME", "b.test")]);
        let back = [("a.test", "CNAME", "b.test"), ("a.test", "AAAA", "::1")];
        check(&back, "a.test", &[("AAAA", "::1")]);
    }

    #[test]
    fn nothing_exists_below_what_does_not() {
        let set = records(&[("gone.test", "NONE", "-"), ("kept.gone.test", "A", "127.0.0.1")]);
        assert_eq!(set.find("gone.test"), Found::Fails(Failure::Absent));
        assert_eq!(set.find("www.gone.test"), Found::Fails(Failure::Absent));
        assert!(matches!(set.find("kept.gone.test"), Found::Values(_)));
        assert!(matches!(set.find("notgone.test"), Found::Values(_)));
    }

    #[test]
    fn names_elsewhere_are_foreign_unless_set() {
        let set = records(&[("shop.example.com", "A", "127.0.0.2")]);
        assert_eq!(set.find("example.org"), Found::Foreign);
        assert_eq!(set.find("atest"), Found::Foreign);
        assert_eq!(set.find("example.com"), Found::Values(Vec::new()));
        assert_eq!(set.find("x.shop.example.com"), Found::Fails(Failure::Absent));
        assert_eq!(set.find("y.example.com"), Found::Foreign);
        assert_eq!(set.zone_of("x.shop.example.com"), Some("shop.example.com"));
    }

    #[test]
    fn a_wildcard_speaks_for_what_is_below_it() {
        let set = [("*.wild.test", "A", "127.0.0.3"), ("own.wild.test", "A", "127.0.0.4")];
        check(&set, "x.wild.test", &[("A", "127.0.0.3")]);
        check(&set, "x.y.wild.test", &[("A", "127.0.0.3")]);
        check(&set, "own.wild.test", &[("A", "127.0.0.4")]);
    }
}
