//! One domain, driven as far as it can go under one claim.

use std::time::Duration;

use holdfast_cluster::StoreClock;
use holdfast_model::{Domain, Outcome, Policy, State, Transition, Wanted, answers, asked, decide};
use holdfast_store::{Claimed, Commit, Error, Lane, Products};

use crate::{
    dispatch::{Shared, Spot},
    elsewhere::{self, Instead, Knowledge, instead},
    handlers::{self, Step},
    telemetry, waits,
};

/// A wait this short is sat out under the claim; giving the row back and claiming it again would cost more.
const PATIENCE: Duration = Duration::from_millis(600);

/// Drives until the domain must wait, is done, or is not ours any more.
pub(crate) async fn drive(shared: &Shared, mut claimed: Claimed, spot: &dyn Spot) {
    let mut begun = false;
    loop {
        let id = claimed.domain.id;
        let begins = !std::mem::replace(&mut begun, true);
        match turn(shared, claimed, spot, begins).await {
            Ok(Some(next)) => claimed = next,
            Ok(None) => return,
            Err(Error::ClaimLost) => {
                tracing::debug!(domain = %id, "the claim was lost before the commit; nothing was changed");
                return;
            }
            Err(error) => {
                // The claim lapses, and the lapse delays the next try: no loop of our own.
                tracing::error!(domain = %id, error = &error as &dyn std::error::Error, "work was interrupted");
                return;
            }
        }
    }
}

/// One step. Gives the domain back if it goes on at once. Whose the open order is does not change under a claim.
async fn turn(
    shared: &Shared,
    claimed: Claimed,
    spot: &dyn Spot,
    begins: bool,
) -> Result<Option<Claimed>, Error> {
    if claimed.domain.removing_since.is_some() {
        handlers::remove(shared, claimed).await?;
        return Ok(None);
    }
    let Some(step) = ours(shared, &claimed, spot, begins).await? else {
        let (id, epoch) = (claimed.domain.id, claimed.epoch);
        shared.holds.drop(id, epoch);
        shared.store.unclaim(&shared.config.claimant, &[(id, epoch)]).await?;
        return Ok(None);
    };
    // Of those that gave their place away, hundreds may be done in one moment: they must not fill the store's own queue.
    let back = match spot.is_left() {
        true => shared.back.acquire().await.ok(),
        false => None,
    };
    let policy = &shared.config.policy;
    let transition = decided(&shared.clock, policy, &claimed.domain, &step.outcome);
    let wait = shared.patience(&claimed.domain, &transition);
    let answers_request = answers(&claimed.domain, &step.outcome, &transition);
    let commit = Commit {
        transition,
        products: step.products,
        answers_request,
        keep_claim: wait.is_some(),
        actor: shared.config.actor(),
    };
    if !commit.keep_claim {
        // The commit ends the claim: from here on nobody need renew it, nor take its end for a loss.
        shared.holds.drop(claimed.domain.id, claimed.epoch);
    }
    let after = shared.store.commit(&claimed, &commit).await?;
    drop(back);
    telemetry::transition(&claimed.domain, &commit.transition);
    shared.after_commit(&commit.transition);
    let Some(wait) = wait else { return Ok(None) };
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    Ok(Some(after))
}

/// The next step; none where it is left to the replicas of another directory.
async fn ours(
    shared: &Shared,
    claimed: &Claimed,
    spot: &dyn Spot,
    begins: bool,
) -> Result<Option<Step>, Error> {
    let mut instead = if begins { instead(shared, claimed, Knowledge::Kept).await? } else { None };
    if instead.is_none() {
        let step = step(shared, claimed, spot).await?;
        if !is_lost(&step.outcome) {
            return Ok(Some(step));
        }
        // An account that came a moment ago was not known yet.
        instead = elsewhere::instead(shared, claimed, Knowledge::New).await?;
        if instead.is_none() {
            return Ok(Some(step));
        }
    }
    Ok(match instead {
        Some(Instead::Abandon(outcome)) => Some(Step { outcome, products: Products::default() }),
        Some(Instead::Leave) | None => None,
    })
}

/// Is there no order of ours where there should be one?
fn is_lost(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::OrderGone { note } if note.code == handlers::ORDER_LOST)
}

/// Decides by the times of the domain as the clock of now tells them.
fn decided(clock: &StoreClock, policy: &Policy, stored: &Domain, outcome: &Outcome) -> Transition {
    let retold = clock.retold(stored);
    decide(&retold, outcome, policy, clock.now()).keeping_stored(&retold, stored)
}

/// What a person asked for comes first; else the state's handler.
async fn step(shared: &Shared, claimed: &Claimed, spot: &dyn Spot) -> Result<Step, Error> {
    let domain = &claimed.domain;
    if domain.wanted == Some(Wanted::Retry) {
        waits::lift(shared, domain).await?;
    }
    if let Some(outcome) = domain.wanted.and_then(|wanted| asked(domain, wanted)) {
        return Ok(Step { outcome, products: Products::default() });
    }
    handlers::handle(shared, claimed, spot).await
}

impl Shared {
    /// How long to wait under the claim for the next attempt; none to give the claim back.
    fn patience(&self, before: &Domain, transition: &Transition) -> Option<Duration> {
        let next = transition.next_attempt_at?;
        let wait = self.clock.until(next);
        let rests = matches!(transition.state, State::Active | State::Failed);
        // Who is looked at for long has a lane of its own, and waits for its room.
        let moves = Lane::of(before) != Lane::Silent && transition.awaits_patience();
        (wait <= PATIENCE && !rests && !moves && !self.stopping.is_cancelled()).then_some(wait)
    }

    /// The queue for orders may have moved: look at it again soon.
    fn after_commit(&self, transition: &Transition) {
        if transition.state == State::AcmeOrdering || transition.order_ends {
            self.queue_moved.notify_one();
        }
    }

    /// Is this domain's newest certificate from the CA we order from?
    pub(crate) fn is_from_our_ca(&self, domain: &Domain) -> bool {
        domain
            .certificate
            .as_ref()
            .is_some_and(|certificate| certificate.directory == self.ca.directory())
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::Note;

    use super::*;
    use crate::samples::{clock_at, domain, jump, now};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// A name that is looked for in vain, under a clock that is a month ahead: at every look it has been so for three days.
    #[test]
    fn a_jump_moves_no_stored_time_and_makes_nothing_late() {
        let clock = clock_at(now());
        jump(&clock, now().plus(30 * DAY));
        let since = now().minus(3 * DAY);
        let mut stored = Domain {
            entered_at: since,
            failing_since: Some(since),
            ..domain(State::DnsVerificationFailed)
        };
        let outcome = Outcome::DnsNotPointed { note: Note::new("dns", "elsewhere") };
        for _ in 0..3 {
            let decided = decided(&clock, &Policy::default(), &stored, &outcome);
            assert_eq!(decided.state, State::DnsVerificationFailed);
            assert_eq!((decided.entered_at, decided.failing_since), (since, Some(since)));
            (stored.entered_at, stored.failing_since) = (decided.entered_at, decided.failing_since);
        }
        // What the decision sets is told by the clock of now.
        let found = decided(&clock, &Policy::default(), &stored, &Outcome::DnsPointed);
        assert!(found.entered_at >= now().plus(30 * DAY), "{found:?}");
    }
}
