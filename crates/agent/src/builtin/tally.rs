//! Counts what happens at the edge, and speaks of what repeats only now and then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What repeats is logged at most this often.
const QUIET: Duration = Duration::from_secs(60);

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
}

#[derive(Default)]
pub(super) struct Tally {
    handshakes: AtomicU64,
    resumed: AtomicU64,
    unknown_names: AtomicU64,
    failed: AtomicU64,
    challenges: AtomicU64,
    lookups: AtomicU64,
    spoke: Mutex<Option<(Instant, u64)>>,
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

    /// Anybody can cause these at any rate: the log hears of them once a minute.
    pub(super) fn unknown(&self, name: Option<&str>) {
        self.unknown_names.fetch_add(1, Relaxed);
        handshake("unknown_name");
        if let Some(since) = self.may_speak() {
            tracing::info!(
                name = name.unwrap_or("(none)"),
                count = since,
                "handshakes for names that are not served were refused"
            );
        }
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

    /// How often it happened since it was last spoken of, if it may be spoken of now.
    fn may_speak(&self) -> Option<u64> {
        let mut spoke = self.spoke.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match spoke.as_mut() {
            Some((at, unspoken)) if now.duration_since(*at) < QUIET => {
                *unspoken += 1;
                None
            }
            _ => Some(spoke.replace((now, 0)).map_or(0, |(_, unspoken)| unspoken) + 1),
        }
    }
}

fn handshake(outcome: &'static str) {
    metrics::counter!("holdfast_edge_handshakes_total", "outcome" => outcome).increment(1);
}
