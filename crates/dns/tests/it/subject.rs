//! The name all tests look at, and the short ways of looking.

use std::time::Duration;

use holdfast_dns::{Expectation, Finding, Limits, Resolver};
use holdfast_model::Hostname;

use holdfast_testkit::dns::{Behaviour, Server, records};

pub(crate) const NAME: &str = "shop.example.com";
pub(crate) const TARGET: &str = "edge.holdfast.test";
pub(crate) const OURS_V4: &str = "192.0.2.1";
pub(crate) const OURS_V6: &str = "2001:db8::1";

pub(crate) fn expectation() -> Expectation {
    Expectation {
        name: Hostname::parse(NAME).unwrap(),
        targets: vec![Hostname::parse(TARGET).unwrap()],
        addresses: vec![OURS_V4.parse().unwrap(), OURS_V6.parse().unwrap()],
        proof: None,
    }
}

pub(crate) fn limits() -> Limits {
    Limits { query: Duration::from_millis(500), ask_private: true, ..Limits::default() }
}

/// Looks at the name, served like this beside our target.
pub(crate) async fn look(zone: &[(&str, Behaviour)]) -> Finding {
    look_for(&expectation(), zone).await
}

pub(crate) async fn look_for(expectation: &Expectation, zone: &[(&str, Behaviour)]) -> Finding {
    let target = (TARGET, Behaviour::Records(records(&["A 203.0.113.9", "AAAA 2001:db8:9::9"])));
    let server = Server::start(std::iter::once(target).chain(zone.iter().cloned())).await;
    let resolver = Resolver::new(Some(&[server.address]), limits()).unwrap();
    resolver.look(expectation).await
}

/// The name with these records alone.
pub(crate) fn with(texts: &[&str]) -> Behaviour {
    Behaviour::Records(records(texts))
}
