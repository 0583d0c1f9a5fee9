//! The records a customer must set.

use std::net::IpAddr;

use holdfast_model::Domain;
use serde::Serialize;
use utoipa::ToSchema;

/// One DNS record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DnsRecord)]
pub(crate) struct RecordView {
    /// `CNAME`, `A` or `AAAA`.
    r#type: &'static str,
    /// Where it is set.
    name: String,
    /// What it is set to.
    value: String,
}

/// The ways to point a name at the edge, each a list of records to set together.
pub(crate) fn alternatives(domain: &Domain, addresses: &[IpAddr]) -> Vec<Vec<RecordView>> {
    let name = domain.name.to_string();
    let cname =
        RecordView { r#type: "CNAME", name: name.clone(), value: domain.target.to_string() };
    let mut ways = vec![vec![cname]];
    if !addresses.is_empty() {
        ways.push(addresses.iter().map(|address| record(&name, address)).collect());
    }
    ways
}

fn record(name: &str, address: &IpAddr) -> RecordView {
    let r#type = if address.is_ipv4() { "A" } else { "AAAA" };
    RecordView { r#type, name: name.to_owned(), value: address.to_string() }
}

/// The same in words, for people.
pub(crate) fn sentence(ways: &[Vec<RecordView>]) -> String {
    let way = |records: &Vec<RecordView>| {
        let records: Vec<_> = records
            .iter()
            .map(|record| format!("{} {} {}", record.name, record.r#type, record.value))
            .collect();
        format!("`{}`", records.join("`, `"))
    };
    ways.iter().map(way).collect::<Vec<_>>().join(" or ")
}
