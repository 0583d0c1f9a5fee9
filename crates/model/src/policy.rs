//! How often, how long, how soon: retry and timeout as values.

use std::time::Duration;

use crate::{CertificateSummary, DomainId, State, Timestamp};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Bounds on retrying in place. Whichever ends first ends the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most attempts.
    pub attempts: u32,
    /// Longest stay.
    pub within: Duration,
    /// Wait after the first attempt.
    pub first_delay: Duration,
    /// The wait doubles up to this.
    pub longest_delay: Duration,
}

impl Limits {
    /// The wait after attempt number `attempt` (from one), before jitter.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay)
    }

    /// Is there no further attempt after number `attempt`, made `stayed` after the state was entered?
    #[must_use]
    pub fn exhausted(&self, attempt: u32, stayed: Duration) -> bool {
        attempt >= self.attempts || stayed >= self.within
    }
}

/// The waits between tries of a failed phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    /// The waits; the last repeats.
    pub rungs: Vec<Duration>,
    /// Given up when nothing but failures came for this long. A renewal has its own end.
    pub give_up_after: Duration,
}

impl Ladder {
    /// The wait after failure number `failures` (from one), before jitter.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let rung = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = self.rungs.last().copied().unwrap_or(Duration::from_secs(DAY));
        self.rungs.get(rung).copied().unwrap_or(last)
    }
}

/// The waits of a domain whose order is in the middle of a CA's outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The first wait; later ones are a quarter of the stay so far.
    pub first_delay: Duration,
    /// The longest wait of our own choice.
    pub longest_delay: Duration,
    /// The longest wait that the CA may ask for.
    pub longest_asked: Duration,
    /// About as long as an order lives: after that, the ladder.
    pub within: Duration,
}

impl Outage {
    /// The wait after a look that met the outage, `stayed` after the state was entered, before jitter.
    #[must_use]
    pub fn delay(&self, stayed: Duration) -> Duration {
        (stayed / 4).max(self.first_delay).min(self.longest_delay)
    }
}

/// When a certificate is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// Days before the end of a 90-day certificate; other lifetimes in proportion.
    pub before_days: u32,
    /// A failing renewal is given up this long after the old certificate's end.
    pub grace: Duration,
    /// How often the CA is asked for its window where it does not say.
    pub ask_every: Duration,
    /// No domain at rest is left alone for longer than this.
    pub longest_look: Duration,
}

/// The shortest time between two renewals by themselves, for certificates that live for seconds.
const SHORTEST_GAP: Duration = Duration::from_secs(2);

impl Renewal {
    /// When a certificate of this validity is renewed if the CA names no window: in proportion to 90 days,
    /// and at half the life for what lives under ten days.
    #[must_use]
    pub fn due_at(&self, not_before: Timestamp, not_after: Timestamp) -> Timestamp {
        let lifetime = not_after.since(not_before);
        if lifetime < Duration::from_secs(10 * DAY) {
            return not_before.plus(lifetime / 2);
        }
        let left = lifetime.mul_f64((f64::from(self.before_days) / 90.0).clamp(0.0, 0.9));
        not_after.minus(left)
    }

    /// Where the CA names no window, one of our own that ends at [`due_at`](Self::due_at): a million issued in one hour are not
    /// renewed in one.
    #[must_use]
    pub fn window(&self, not_before: Timestamp, not_after: Timestamp) -> (Timestamp, Timestamp) {
        let end = self.due_at(not_before, not_after);
        (end.minus(not_after.since(not_before) / 30), end)
    }

    /// When a certificate that is served from `now` on is first looked at: within the time after which the CA is asked again, and not
    /// after our own window has begun. `share`, from 0 to 1, is the domain's own, so that a million issued in one hour are not all
    /// asked about at once.
    #[must_use]
    pub(crate) fn first_look(
        &self,
        now: Timestamp,
        certificate: &CertificateSummary,
        share: f64,
    ) -> Timestamp {
        let (start, end) = self.window(certificate.not_before, certificate.not_after);
        let own = start.plus(end.since(start).mul_f64(share));
        now.plus(self.ask_every.mul_f64(share)).min(own).max(now)
    }

    /// Before this a certificate that came at `since` is not renewed by itself, whatever it says: each one is used for a tenth of
    /// its life. One that ends sooner is used for half of what was left of it, and for a day at least.
    #[must_use]
    pub fn earliest(&self, certificate: &CertificateSummary, since: Timestamp) -> Timestamp {
        let left = certificate.not_after.since(since);
        let used = (certificate.lifetime() / 10).min((left / 2).max(Duration::from_secs(DAY)));
        since.plus(used.max(SHORTEST_GAP))
    }
}

/// All of it. The defaults are the product's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// `DnsVerifying`.
    pub dns: Limits,
    /// `DnsVerificationFailed`: the slow watch.
    pub watch: Limits,
    /// `AcmeChallengeValidating`.
    pub validation: Limits,
    /// `CertificateDownloading`.
    pub download: Limits,
    /// How long an order is held open for a name that the CA keeps waiting; it counts among those in flight.
    pub held_open: Duration,
    /// How long nothing is asked for a name that the CA keeps waiting. Where it must wait for longer, it is looked at in between.
    pub longest_deferral: Duration,
    /// How long a CA may not know an order that may have been finalized, or its certificate, before another order is made.
    pub certificate_gone: Duration,
    /// The same, where what it sends is no certificate, or one that is not valid yet.
    pub certificate_useless: Duration,
    /// How soon to look again at an edge that is still applying, if no report wakes us.
    pub deployment_look: Duration,
    /// The wait grows with the stay, up to this.
    pub longest_deployment_look: Duration,
    /// An outage of the CA in the middle of an order.
    pub outage: Outage,
    /// Every phase failure that a later try can mend.
    pub ladder: Ladder,
    /// Renewal.
    pub renewal: Renewal,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            dns: limits(5, 10 * MINUTE, 2_000, 60_000),
            watch: limits(u32::MAX, 7 * DAY, 30_000, HOUR * 1_000),
            validation: limits(30, 5 * MINUTE, 250, 2_000),
            download: limits(u32::MAX, 2 * MINUTE, 250, 2_000),
            held_open: Duration::from_secs(5 * MINUTE),
            longest_deferral: Duration::from_secs(DAY),
            certificate_gone: Duration::from_secs(10 * MINUTE),
            certificate_useless: Duration::from_secs(DAY),
            deployment_look: Duration::from_secs(15),
            longest_deployment_look: Duration::from_secs(10 * MINUTE),
            outage: Outage {
                first_delay: Duration::from_secs(2),
                longest_delay: Duration::from_secs(2 * MINUTE),
                longest_asked: Duration::from_secs(HOUR),
                within: Duration::from_secs(DAY),
            },
            ladder: Ladder {
                rungs: [MINUTE, 10 * MINUTE, 100 * MINUTE, DAY].map(Duration::from_secs).to_vec(),
                give_up_after: Duration::from_secs(7 * DAY),
            },
            renewal: Renewal {
                before_days: 30,
                grace: Duration::from_secs(7 * DAY),
                ask_every: Duration::from_secs(6 * HOUR),
                longest_look: Duration::from_secs(7 * DAY),
            },
        }
    }
}

impl Policy {
    /// The bounds on staying in a state, where it has any.
    #[must_use]
    pub const fn limits(&self, state: State) -> Option<&Limits> {
        match state {
            State::DnsVerifying => Some(&self.dns),
            State::DnsVerificationFailed => Some(&self.watch),
            State::AcmeChallengeValidating => Some(&self.validation),
            State::CertificateDownloading => Some(&self.download),
            _ => None,
        }
    }

    /// The wait for edges that have been waited for this long, before jitter: a quarter of it.
    #[must_use]
    pub(crate) fn deployment_delay(&self, stayed: Duration) -> Duration {
        (stayed / 4).min(self.longest_deployment_look).max(self.deployment_look)
    }

    /// The longest wait for a try where this much is left of the certificate that a new one replaces: with jitter a tenth of it,
    /// and a minute at least. After its end nothing is in a hurry any more.
    #[must_use]
    pub(crate) fn longest_rung(left: Duration) -> Duration {
        if left.is_zero() {
            return Duration::MAX;
        }
        (left / 12).max(Duration::from_secs(MINUTE))
    }
}

fn limits(attempts: u32, within_secs: u64, first_ms: u64, longest_ms: u64) -> Limits {
    Limits {
        attempts,
        within: Duration::from_secs(within_secs),
        first_delay: Duration::from_millis(first_ms),
        longest_delay: Duration::from_millis(longest_ms),
    }
}

/// Adds up to a fifth, so that what failed together does not return together.
#[must_use]
pub(crate) fn jittered(delay: Duration, id: DomainId, attempt: u32) -> Duration {
    let share = share(id, attempt);
    delay.saturating_add(Duration::from_secs_f64(delay.as_secs_f64() * 0.2 * share))
}

/// A domain's own place between 0 and 1. Derived from the id, so that a replay decides the same.
#[must_use]
pub(crate) fn share(id: DomainId, attempt: u32) -> f64 {
    let mut hash = u64::from(attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (high, low) = id.0.as_u64_pair();
    for word in [high, low] {
        hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 33;
    }
    f64::from(u32::try_from(hash >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}
