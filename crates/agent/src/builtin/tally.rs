//! Counts what happens at the edge.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::quiet::Quiet;
use crate::error::{Error, chain};

/// What happened at the edge so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tallied {
    /// Handshakes completed, without those of challenges.
    pub handshakes: u64,
    /// Handshakes completed by resuming a session.
    pub resumed: u64,
    /// Handshakes that asked for a name nobody deployed, or for none.
    pub unknown_names: u64,
    /// Handshakes that failed in any other way.
    pub failed: u64,
    /// TLS-ALPN-01 challenges answered.
    pub challenges: u64,
    /// Certificates looked up in the source.
    pub lookups: u64,
    /// Requests that the upstream did not answer, through no fault of the visitor.
    pub upstream_failures: u64,
}

#[derive(Default)]
pub(super) struct Tally {
    handshakes: AtomicU64,
    resumed: AtomicU64,
    unknown_names: AtomicU64,
    failed: AtomicU64,
    challenges: AtomicU64,
    lookups: AtomicU64,
    upstream_failures: AtomicU64,
    unknown: Quiet,
    turned_away: Quiet,
}

impl Tally {
    pub(super) fn so_far(&self) -> Tallied {
        Tallied {
            handshakes: self.handshakes.load(Relaxed),
            resumed: self.resumed.load(Relaxed),
            unknown_names: self.unknown_names.load(Relaxed),
            failed: self.failed.load(Relaxed),
            challenges: self.challenges.load(Relaxed),
            lookups: self.lookups.load(Relaxed),
            upstream_failures: self.upstream_failures.load(Relaxed),
        }
    }

    pub(super) fn completed(&self, resumed: bool) {
        self.handshakes.fetch_add(1, Relaxed);
        if resumed {
            self.resumed.fetch_add(1, Relaxed);
        }
        handshake(if resumed { "resumed" } else { "full" });
    }

    pub(super) fn challenged(&self) {
        self.challenges.fetch_add(1, Relaxed);
        handshake("challenge");
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
        handshake("failed");
    }

    /// The certificate exists, or may, and could not be had.
    pub(super) fn turned_away(&self, error: &Error) {
        self.failed();
        if let Some(count) = self.turned_away.may_speak() {
            tracing::warn!(error = chain(error), count, "visitors were turned away");
        }
    }

    /// Anybody can cause these at any rate: the log hears of them once a minute.
    pub(super) fn unknown(&self, name: Option<&str>) {
        self.unknown_names.fetch_add(1, Relaxed);
        handshake("unknown_name");
        if let Some(count) = self.unknown.may_speak() {
            tracing::info!(
                name = name.unwrap_or("(none)"),
                count,
                "handshakes for names that are not served were refused"
            );
        }
    }

    /// The upstream did not answer a request.
    pub(super) fn upstream_failed(&self, outcome: &'static str) {
        self.upstream_failures.fetch_add(1, Relaxed);
        metrics::counter!("holdfast_edge_upstream_failures_total", "outcome" => outcome)
            .increment(1);
    }

    /// `None` for a source that failed.
    pub(super) fn looked_up(&self, found: Option<bool>) {
        self.lookups.fetch_add(1, Relaxed);
        let outcome = match found {
            Some(true) => "found",
            Some(false) => "unknown",
            None => "failed",
        };
        metrics::counter!("holdfast_edge_lookups_total", "outcome" => outcome).increment(1);
    }
}

fn handshake(outcome: &'static str) {
    metrics::counter!("holdfast_edge_handshakes_total", "outcome" => outcome).increment(1);
}
