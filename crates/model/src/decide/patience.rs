//! How long a domain waits, and after how much failing it is given up.

use std::time::Duration;

use super::Step;
use crate::{
    Note, Outcome, Policy, State, Timestamp,
    policy::{jittered, share},
};

/// A try this late was not made in time because nothing of us ran.
const AWAY: Duration = Duration::from_secs(3600);

impl Step<'_> {
    /// The time in the queue, and that of an order parked because the CA asked to wait, is the CA's: no failing name is given up for it.
    pub(super) fn failing_beside_the_queue(&self) -> Option<Timestamp> {
        let is_parked = self.domain.state.is_phase_failure()
            && self.domain.last_error.as_ref().is_some_and(Note::is_of_the_ca);
        let waited = match self.domain.state {
            State::AcmeOrdering => self.stayed(),
            _ if is_parked => self.stayed(),
            _ => Duration::ZERO,
        };
        self.failing_since().map(|since| since.plus(waited).min(self.now))
    }

    pub(super) fn failure_delay(&self, to: State, failures: u32) -> Duration {
        let delay = match to {
            State::DnsVerificationFailed => self.policy.watch.delay(1),
            _ => self.rung(failures),
        };
        jittered(delay, self.domain.id, failures)
    }

    /// The ladder's rung, and no more than a share of what is left of the certificate: a new one that comes after its end is late.
    fn rung(&self, failures: u32) -> Duration {
        let left = self.domain.certificate.as_ref().map(|old| old.not_after.since(self.now));
        let longest = Policy::longest_rung(left.unwrap_or_default());
        self.policy.ladder.delay(failures).min(longest)
    }

    /// However far away somebody says that the next look may be.
    pub(super) fn next_look(&self, outcome: &Outcome) -> Timestamp {
        let next = outcome.not_before().unwrap_or_else(|| self.later());
        next.min(self.now.plus(self.policy.renewal.longest_look)).max(self.now)
    }

    pub(super) fn later(&self) -> Timestamp {
        let failures = self.domain.failures.max(1);
        self.now.plus(jittered(self.rung(failures), self.domain.id, failures))
    }

    /// Not before now, and no later than the ladder would wait.
    pub(super) fn bounded(&self, next: Timestamp) -> Timestamp {
        next.min(self.now.plus(self.policy.ladder.delay(u32::MAX))).max(self.now)
    }

    /// Was it tried for long enough? A domain that has a certificate is tried until some days after its end as well.
    pub(super) fn given_up(&self, since: Timestamp) -> bool {
        let end = self.domain.certificate.as_ref().map(|old| old.not_after);
        self.now.since(since) >= self.policy.ladder.give_up_after
            && end.is_none_or(|end| self.now >= end.plus(self.policy.renewal.grace))
    }

    /// Did the try that is due now come far too late?
    pub(super) fn was_left_alone(&self) -> bool {
        !self.time_away().is_zero()
    }

    /// How late the try that is due now comes, where it is far too late. Nothing ran meanwhile, so that time says nothing against
    /// the domain.
    pub(super) fn time_away(&self) -> Duration {
        let late = self.domain.next_attempt_at.map(|due| self.now.since(due)).unwrap_or_default();
        if late >= AWAY { late } else { Duration::ZERO }
    }

    /// May a failure be final? That of a first certificate may be at once.
    pub(super) fn may_end(&self, since: Timestamp) -> bool {
        self.domain.certificate.is_none() || self.given_up(since)
    }

    pub(super) fn renewal_look(&self) -> Timestamp {
        let Some(certificate) = &self.domain.certificate else { return self.now };
        self.policy.renewal.first_look(self.now, certificate, share(self.domain.id, 0))
    }

    /// Edges that report wake us; one that never does is not asked about all the time.
    pub(super) fn next_look_at_edges(&self) -> Timestamp {
        let delay = self.policy.deployment_delay(self.stayed());
        self.now.plus(jittered(delay, self.domain.id, 0))
    }
}
