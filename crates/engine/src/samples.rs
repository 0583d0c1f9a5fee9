//! What unit tests decide about: a domain, a certificate, a clock that jumps.

use std::collections::BTreeMap;

use holdfast_cluster::StoreClock;
use holdfast_model::{CertificateSummary, Domain, DomainId, Hostname, State, Timestamp};

pub(crate) fn now() -> Timestamp {
    Timestamp::from_seconds(1_800_000_000)
}

/// A clock that says this, and has never stepped.
pub(crate) fn clock_at(now: Timestamp) -> StoreClock {
    let clock = StoreClock::default();
    clock.answered(clock.ask(), now);
    clock
}

/// The clock says this all at once.
pub(crate) fn jump(clock: &StoreClock, to: Timestamp) {
    clock.answered(clock.ask(), to);
}

pub(crate) fn certificate(not_after: Timestamp) -> CertificateSummary {
    CertificateSummary {
        serial: "01".to_owned(),
        sha256: "ab".to_owned(),
        not_before: Timestamp::from_seconds(1_700_000_000),
        not_after,
        issuer: "Test CA".to_owned(),
        directory: "https://ca.test/directory".to_owned(),
    }
}

pub(crate) fn domain(state: State) -> Domain {
    Domain {
        id: DomainId::new(),
        name: Hostname::parse("shop.example.com").unwrap(),
        tenant: None,
        resource: "shop".to_owned(),
        target: Hostname::parse("edge.example.net").unwrap(),
        edge_group: "default".to_owned(),
        labels: BTreeMap::new(),
        orchestration_id: "once".to_owned(),
        state,
        foreign_state: None,
        attempt: 0,
        entered_at: now(),
        next_attempt_at: Some(now()),
        queued_at: None,
        failures: 0,
        failing_since: None,
        last_error: None,
        order_open: false,
        certificate: None,
        certificate_since: None,
        wanted: None,
        removing_since: None,
        revoke_on_removal: false,
        removed_at: None,
        lapses: 0,
        created_at: now(),
        updated_at: now(),
        version: 1,
    }
}
