//! One domain, driven as far as it can go under one claim.

use std::time::Duration;

use holdfast_model::{Domain, State, Transition, asked, decide};
use holdfast_store::{Claimed, Commit, Error, Products};

use crate::{
    dispatch::Shared,
    handlers::{self, Step},
    telemetry,
};

/// A wait this short is sat out under the claim; giving the row back and claiming it again would cost more.
const PATIENCE: Duration = Duration::from_millis(600);

/// Drives until the domain must wait, is done, or is not ours any more.
pub(crate) async fn drive(shared: &Shared, mut claimed: Claimed) {
    loop {
        let id = claimed.domain.id;
        match turn(shared, claimed).await {
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

/// One step. Gives the domain back if it goes on at once.
async fn turn(shared: &Shared, mut claimed: Claimed) -> Result<Option<Claimed>, Error> {
    shared.clock.retell(&mut claimed.domain);
    if claimed.domain.removing_since.is_some() {
        handlers::remove(shared, claimed).await?;
        return Ok(None);
    }
    let step = step(shared, &claimed).await?;
    let now = shared.clock.now();
    let transition = decide(&claimed.domain, &step.outcome, &shared.config.policy, now);
    let wait = shared.patience(&transition);
    let commit = Commit {
        transition,
        products: step.products,
        answers_request: claimed.domain.wanted.is_some(),
        keep_claim: wait.is_some(),
        actor: shared.config.actor(),
    };
    if !commit.keep_claim {
        // The commit ends the claim: from here on nobody need renew it, nor take its end for a loss.
        shared.holds.drop(claimed.domain.id, claimed.epoch);
    }
    let after = shared.store.commit(&claimed, &commit).await?;
    telemetry::transition(&claimed.domain, &commit.transition);
    shared.after_commit(&commit.transition);
    let Some(wait) = wait else { return Ok(None) };
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    Ok(Some(after))
}

/// What a person asked for comes first; else the state's handler.
async fn step(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    let domain = &claimed.domain;
    if let Some(outcome) = domain.wanted.and_then(|wanted| asked(domain, wanted)) {
        return Ok(Step { outcome, products: Products::default() });
    }
    handlers::handle(shared, claimed).await
}

impl Shared {
    /// How long to wait under the claim for the next attempt; none to give the claim back.
    fn patience(&self, transition: &Transition) -> Option<Duration> {
        let next = transition.next_attempt_at?;
        let wait = self.clock.until(next);
        let rests = matches!(transition.state, State::Active | State::Failed);
        (wait <= PATIENCE && !rests && !self.stopping.is_cancelled()).then_some(wait)
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
