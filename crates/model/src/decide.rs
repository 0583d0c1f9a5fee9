//! The one decision: a domain, what happened and the time give the transition. Nothing else in the
//! product decides where a domain goes.

mod patience;

use std::time::Duration;

use crate::{
    Domain, Note, Outcome, Phase, Policy, Rule, State, Timestamp, policy::jittered, table,
};

/// Tries of a state after which the end of an outage gives it no new time: a CA that fails at every
/// other request keeps no domain for ever.
const BEGINNINGS: u32 = 200;

/// One row of history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Left.
    pub from: State,
    /// Entered; equal to `from` for a retry in place.
    pub to: State,
    /// Which try of `from` this was, from one.
    pub attempt: u32,
    /// How long `from` had lasted.
    pub lasted: Duration,
    /// Why, if it was not a success.
    pub error: Option<Note>,
}

/// What is to be committed. Everything a worker changes of a domain is in here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// When this was decided, by the store's clock as the decider knew it.
    pub decided_at: Timestamp,
    /// The history rows, in order; empty for a quiet wait.
    pub hops: Vec<Hop>,
    /// The state afterwards.
    pub state: State,
    /// Tries made of that state.
    pub attempt: u32,
    /// Since when in that state.
    pub entered_at: Timestamp,
    /// When it is tried next; none when it is over or queued.
    pub next_attempt_at: Option<Timestamp>,
    /// Its place in the queue for an order, if it waits there.
    pub queued_at: Option<Timestamp>,
    /// Phase failures in a row.
    pub failures: u32,
    /// Since when nothing but failures.
    pub failing_since: Option<Timestamp>,
    /// The latest cause.
    pub last_error: Option<Note>,
    /// Is the open order, if any, over with this?
    pub order_ends: bool,
}

impl Transition {
    /// As it is committed where it was decided by retold times: those that it leaves alone stay as
    /// they are stored. Retold again at each commit, they would move on by the clock's error each time.
    #[must_use]
    pub fn keeping_stored(mut self, retold: &Domain, stored: &Domain) -> Self {
        if self.entered_at == retold.entered_at {
            self.entered_at = stored.entered_at;
        }
        if self.failing_since == retold.failing_since {
            self.failing_since = stored.failing_since;
        }
        self
    }

    /// Does it wait for a look at DNS that may take long?
    #[must_use]
    pub fn awaits_patience(&self) -> bool {
        let by_dns = matches!(self.state, State::DnsVerifying | State::DnsVerificationFailed);
        by_dns && self.last_error.as_ref().is_some_and(Note::is_silence_of_dns)
    }

    /// When it is tried next, as seen by the store's clock at the moment of the commit. Where the
    /// decider's clock was ahead of it, the wait counts from the commit: else a step back of the
    /// clock would leave the domain alone for as long as the step was.
    #[must_use]
    pub fn next_attempt_as_of(&self, committed_at: Timestamp) -> Option<Timestamp> {
        let next = self.next_attempt_at?;
        Some(match committed_at < self.decided_at {
            true => committed_at.plus(next.since(self.decided_at)),
            false => next,
        })
    }
}

/// Decides. Total: an outcome the table does not know in this state fails the state's phase.
#[must_use]
pub fn decide(domain: &Domain, outcome: &Outcome, policy: &Policy, now: Timestamp) -> Transition {
    let step = Step { domain, policy, now };
    match table::rule(domain.state, outcome.kind()) {
        Some(Rule::Go(path)) => step.go(path, outcome),
        Some(Rule::Retry(exhausted)) => step.retry(exhausted, outcome),
        Some(Rule::Watch(exhausted)) => step.watch(exhausted, outcome),
        Some(Rule::Outage(lasting)) => step.outage(lasting, outcome),
        Some(Rule::Fail(to)) => step.fail(to, outcome.note().cloned(), ends_order(outcome)),
        Some(Rule::Wait) => step.wait(outcome),
        Some(Rule::Defer) => step.defer(outcome),
        Some(Rule::Park(to)) => step.park(to, outcome),
        Some(Rule::Resume) => step.resume(),
        None => step.unexpected(outcome),
    }
}

/// The failure state of a state's phase, where an outcome outside the table leads.
pub(crate) const fn phase_failure(state: State) -> Option<State> {
    if state.is_failure() {
        return None;
    }
    match state.phase() {
        Phase::Dns => Some(State::DnsVerificationFailed),
        Phase::Order => Some(State::AcmeOrderFailed),
        Phase::Challenge => Some(State::AcmeChallengeFailed),
        Phase::Download => Some(State::CertificateDownloadFailed),
        Phase::Deployment => Some(State::CertificateDeploymentFailed),
        Phase::Intake | Phase::Rest | Phase::Renewal => None,
    }
}

const fn ends_order(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::ChallengeInvalid { .. }
            | Outcome::OrderGone { .. }
            | Outcome::CertificateIssued
            | Outcome::Hopeless { .. }
    )
}

/// Does nothing lead back from here to what failed before? Then it failed long ago, and does not count any more. A proof that the
/// CA took does not do: what comes after it may fail again and again, and each time begins with a new order.
const fn ends_failures(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::DnsPointed
            | Outcome::CertificateIssued
            | Outcome::RenewalNeeded
            | Outcome::CertificateDamaged { .. }
    )
}

struct Step<'a> {
    domain: &'a Domain,
    policy: &'a Policy,
    now: Timestamp,
}

impl Step<'_> {
    /// What a wrong clock stored in the future counts from now on: else no stay in this state would
    /// ever be too long. A name under slow watch is not blamed for the time in which nothing of us ran.
    fn entered_at(&self) -> Timestamp {
        let stored = self.domain.entered_at;
        let entered_at = match self.domain.state {
            State::DnsVerificationFailed => stored.plus(self.time_away()),
            _ => stored,
        };
        entered_at.min(self.now)
    }

    fn failing_since(&self) -> Option<Timestamp> {
        self.domain.failing_since.map(|since| since.plus(self.time_away()).min(self.now))
    }

    fn queued_at(&self) -> Timestamp {
        self.domain.queued_at.map_or(self.now, |since| since.min(self.now))
    }

    fn stayed(&self) -> Duration {
        self.now.since(self.entered_at())
    }

    /// Nothing changed yet.
    fn same(&self) -> Transition {
        let domain = self.domain;
        Transition {
            decided_at: self.now,
            hops: Vec::new(),
            state: domain.state,
            attempt: domain.attempt,
            entered_at: self.entered_at(),
            next_attempt_at: domain.next_attempt_at,
            queued_at: domain.queued_at.map(|_| self.queued_at()),
            failures: domain.failures,
            failing_since: self.failing_since(),
            last_error: domain.last_error.clone(),
            order_ends: false,
        }
    }

    fn hop(&self, to: State, error: Option<Note>) -> Hop {
        let attempt = self.domain.attempt.saturating_add(1);
        Hop { from: self.domain.state, to, attempt, lasted: self.stayed(), error }
    }

    /// Through `path`; only the first hop took any time.
    fn through(&self, path: &[State], error: Option<Note>) -> Transition {
        let mut transition = self.same();
        for &to in path {
            let hop = if transition.hops.is_empty() {
                self.hop(to, error.clone())
            } else {
                Hop { from: transition.state, to, attempt: 1, lasted: Duration::ZERO, error: None }
            };
            transition.hops.push(hop);
            transition.state = to;
        }
        transition.attempt = 0;
        transition.entered_at = self.now;
        transition.failing_since = self.failing_beside_the_queue();
        transition.last_error = error;
        transition.next_attempt_at = Some(self.now);
        transition.queued_at = None;
        self.settle(transition)
    }

    /// What follows from the state alone.
    fn settle(&self, mut transition: Transition) -> Transition {
        match transition.state {
            State::AcmeOrdering => {
                transition.queued_at = Some(self.queued_at());
                transition.next_attempt_at = None;
                transition.order_ends = true;
            }
            State::Active => {
                transition.failures = 0;
                transition.failing_since = None;
                transition.next_attempt_at = Some(self.renewal_look());
            }
            State::Failed => {
                transition.next_attempt_at = None;
                transition.order_ends = true;
            }
            _ => {}
        }
        transition
    }

    fn go(&self, path: &[State], outcome: &Outcome) -> Transition {
        let mut transition = self.through(path, outcome.note().cloned());
        transition.order_ends |= ends_order(outcome);
        if ends_failures(outcome) {
            transition.failures = 0;
            transition.failing_since = None;
        }
        transition
    }

    fn retry(&self, exhausted: State, outcome: &Outcome) -> Transition {
        let attempt = self.domain.attempt.saturating_add(1);
        let note = outcome.note().cloned();
        let Some(limits) = self.policy.limits(self.domain.state) else {
            return self.fail(exhausted, note, false);
        };
        let begun_at = self.begun_at();
        if limits.exhausted(attempt, self.now.since(begun_at)) {
            return self.fail(exhausted, note.or_else(|| Some(self.too_long(attempt))), false);
        }
        let delay = jittered(limits.delay(attempt), self.domain.id, attempt);
        let end = begun_at.plus(limits.within);
        let next =
            outcome.not_before().unwrap_or_else(|| self.now.plus(delay)).min(end).max(self.now);
        Transition {
            hops: vec![self.hop(self.domain.state, note.clone())],
            attempt,
            entered_at: begun_at,
            next_attempt_at: Some(next),
            last_error: note,
            ..self.same()
        }
    }

    /// From when on the state's limits count: the end of an outage of the CA begins them again, but
    /// not for ever.
    fn begun_at(&self) -> Timestamp {
        let was_away = self.domain.last_error.as_ref().is_some_and(Note::is_of_the_ca);
        match was_away && self.domain.attempt < BEGINNINGS {
            true => self.now,
            false => self.entered_at(),
        }
    }

    fn outage(&self, lasting: State, outcome: &Outcome) -> Transition {
        let (outage, note) = (&self.policy.outage, outcome.note().cloned());
        if self.stayed() >= outage.within {
            // What cannot have been finalized is made again: it may be this order that the CA cannot go on with.
            let may_have_issued = self.domain.state == State::CertificateDownloading;
            return self.fail(lasting, note, !may_have_issued);
        }
        let own = jittered(outage.delay(self.stayed()), self.domain.id, self.domain.attempt);
        let asked = outcome.not_before().map(|at| at.since(self.now)).unwrap_or_default();
        let delay = own.max(asked.min(outage.longest_asked));
        Transition { next_attempt_at: Some(self.now.plus(delay)), last_error: note, ..self.same() }
    }

    fn too_long(&self, attempt: u32) -> Note {
        let detail = format!(
            "no decision after {attempt} attempts and {} s in {}",
            self.stayed().as_secs(),
            self.domain.state
        );
        Note::new("timed-out", detail)
    }

    fn watch(&self, exhausted: State, outcome: &Outcome) -> Transition {
        let attempt = self.domain.attempt.saturating_add(1);
        let note = outcome.note().cloned();
        let limits = &self.policy.watch;
        if limits.exhausted(attempt, self.stayed()) && self.may_end(self.entered_at()) {
            return self.fail(exhausted, note, true);
        }
        let delay = jittered(limits.delay(attempt.saturating_add(1)), self.domain.id, attempt);
        let next = Some(self.now.plus(delay));
        Transition { attempt, next_attempt_at: next, last_error: note, ..self.same() }
    }

    fn fail(&self, to: State, note: Option<Note>, order_ends: bool) -> Transition {
        let since = self.failing_beside_the_queue().unwrap_or(self.now);
        let to = match to {
            State::Failed if !self.may_end(since) => phase_failure(self.domain.state).unwrap_or(to),
            _ => to,
        };
        let mut transition = self.through(&[to], note);
        transition.failures = self.domain.failures.saturating_add(1);
        transition.failing_since = Some(since);
        transition.order_ends |= order_ends;
        if to.is_phase_failure() {
            transition.next_attempt_at =
                Some(self.now.plus(self.failure_delay(to, transition.failures)));
        }
        transition
    }

    fn wait(&self, outcome: &Outcome) -> Transition {
        let mut transition = self.same();
        transition.next_attempt_at = match self.domain.state {
            State::AcmeOrdering | State::Failed => None,
            State::CertificateDeploying => Some(self.next_look_at_edges()),
            State::Active => Some(self.next_look(outcome)),
            // Another look at once, which may take longer.
            State::DnsVerifying | State::DnsVerificationFailed => Some(self.now),
            _ => Some(self.bounded(outcome.not_before().unwrap_or_else(|| self.later()))),
        };
        match outcome.note() {
            // A look that found nothing wrong ends what an earlier one found.
            None if self.domain.state == State::Active => transition.last_error = None,
            None => {}
            Some(note) => transition.last_error = Some(note.clone()),
        }
        if self.domain.state == State::AcmeOrdering {
            transition.queued_at = Some(self.queued_at());
            transition.order_ends = true;
        }
        transition
    }

    /// Out of the queue until then: the order made out for it ends, and no attempt is lost.
    fn defer(&self, outcome: &Outcome) -> Transition {
        Transition {
            next_attempt_at: Some(self.spread(outcome)),
            queued_at: None,
            last_error: outcome.note().cloned(),
            order_ends: true,
            ..self.same()
        }
    }

    /// In place while that holds no order open for long; then in the state for parked orders, which is no failure of its own.
    fn park(&self, to: State, outcome: &Outcome) -> Transition {
        let next = self.spread(outcome);
        let note = outcome.note().cloned();
        let within = self.policy.limits(self.domain.state).map(|limits| limits.within);
        let held_open = within.map_or(self.policy.held_open, |it| it.min(self.policy.held_open));
        if next <= self.entered_at().plus(held_open) {
            return Transition { next_attempt_at: Some(next), last_error: note, ..self.same() };
        }
        Transition { next_attempt_at: Some(next), ..self.through(&[to], note) }
    }

    /// When the CA may be asked again, bounded, and not for all who wait for the same at once.
    fn spread(&self, outcome: &Outcome) -> Timestamp {
        let until = match outcome {
            Outcome::Deferred { until, .. } => *until,
            _ => self.later(),
        };
        let wait = until.since(self.now).min(self.policy.longest_deferral);
        self.now.plus(jittered(wait, self.domain.id, self.domain.attempt))
    }

    fn resume(&self) -> Transition {
        let by_a_person = self.domain.wanted.is_some();
        let failing = self.failing_beside_the_queue();
        let given_up = failing.is_some_and(|since| self.given_up(since));
        if !by_a_person && given_up && !self.was_left_alone() {
            let note = self.domain.last_error.clone();
            return self.through(&[State::Failed], note);
        }
        let mut transition = self.through(self.resume_path(), None);
        if by_a_person {
            transition.failures = 0;
            transition.failing_since = None;
        }
        transition
    }

    fn resume_path(&self) -> &'static [State] {
        match self.domain.state {
            State::AcmeOrderFailed => &[State::AcmeOrdering],
            State::AcmeChallengeFailed if self.domain.order_open => {
                &[State::AcmeChallengePreparing]
            }
            State::AcmeChallengeFailed => &[State::AcmeOrdering],
            State::CertificateDownloadFailed if self.domain.order_open => {
                &[State::CertificateDownloading]
            }
            State::CertificateDownloadFailed => &[State::AcmeOrdering],
            State::CertificateDeploymentFailed => &[State::CertificateDeploying],
            State::Failed if self.domain.certificate.is_some() => {
                &[State::RenewalDue, State::Renewing, State::AcmeOrdering]
            }
            _ => &[State::DnsVerifying],
        }
    }

    fn unexpected(&self, outcome: &Outcome) -> Transition {
        let Some(to) = phase_failure(self.domain.state) else { return self.wait(outcome) };
        let kind = outcome.kind().as_str();
        let detail = format!("{kind} is no outcome of {}; please report this", self.domain.state);
        self.fail(to, Some(Note::new("unexpected-outcome", detail)), false)
    }
}
