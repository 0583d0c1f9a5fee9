//! `AcmeOrdering`: makes an order at the CA. Comes here only with an order row made out by `admit`, which is
//! the account's pause, budget and limit.

use holdfast_acme::Class;
use holdfast_model::{Domain, Note, Outcome, State, Timestamp};
use holdfast_store::{Claimed, Error, Products};
use tokio::time::Instant;

use super::{Step, challenge, sealed_or_lost};
use crate::{
    concerns::Concerns,
    dispatch::Shared,
    waits::{self, NotNow, Waits},
};

pub(super) async fn place(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    if let Some(deferred) = waits::holding(shared, &claimed.domain).await? {
        return Ok(deferred.into());
    }
    // Not made out just now: what it waited for is over, or it was taken over from a worker that died, perhaps at another CA.
    if claimed.order.is_none() && challenge::order(shared, claimed).await?.is_none() {
        return Ok(Outcome::CaWaits.into());
    }
    let replaces = replaced(shared, claimed).await?;
    let Some(_alone) = shared.way.may_ask().await else { return Ok(Outcome::CaWaits.into()) };
    match shared.ca.new_order(&claimed.domain.name, replaces.as_deref()).await {
        Ok(order) => {
            shared.way.ordered(shared, claimed.domain.id).await;
            Ok(Step {
                outcome: Outcome::OrderCreated,
                products: Products { order_url: Some(order.url), ..Products::default() },
            })
        }
        Err(error) => Ok(refused(shared, &claimed.domain, &error).await.into()),
    }
}

/// The certificate this order replaces, for the CA's renewal accounting; only the CA that issued it knows it.
async fn replaced(shared: &Shared, claimed: &Claimed) -> Result<Option<String>, Error> {
    if !shared.is_from_our_ca(&claimed.domain) {
        return Ok(None);
    }
    let bundle = sealed_or_lost(&claimed.domain, shared.store.bundle(claimed.domain.id).await)?;
    Ok(bundle.map(|bundle| bundle.chain_pem))
}

async fn refused(shared: &Shared, domain: &Domain, error: &holdfast_acme::Error) -> Outcome {
    match error.class() {
        Class::Wait { scope, after, note } => {
            let said = NotNow { scope, after, note };
            match waits::begin(shared, domain, &said).await {
                Waits::Everybody(_) => Outcome::CaWaits,
                Waits::Replica(until) => away(shared, domain, until, said.note),
                Waits::Name(until) => Outcome::Deferred { until, note: said.note },
            }
        }
        Class::AccountUnusable(note) => {
            shared.way.stopped(shared, &note).await;
            Outcome::CaWaits
        }
        Class::ActionRequired(note) => {
            let times = match shared.way.concerns(domain.id) {
                Concerns::Everybody => {
                    shared.way.stopped(shared, &note).await;
                    return Outcome::CaWaits;
                }
                Concerns::Unclear => 0,
                Concerns::Name(times) => times,
            };
            let until = shared.way.set_aside(shared, times, None, &note).await;
            Outcome::Deferred { until, note }
        }
        // Nobody answered, or somebody who could not.
        Class::Unavailable(note) if !shared.way.is_its_own(domain.id, State::AcmeOrdering) => {
            if let Concerns::Name(times) = shared.way.concerns(domain.id) {
                let until = shared.way.set_aside(shared, times, None, &note).await;
                return Outcome::Deferred { until, note };
            }
            let until = shared.way.failed(shared, &note).await;
            let wait = until.saturating_duration_since(Instant::now());
            away(shared, domain, shared.clock.now().plus(wait), note)
        }
        Class::Unavailable(note)
        | Class::Doubtful(note)
        | Class::Trouble(note)
        | Class::AccountGone(note)
        | Class::OrderGone(note) => Outcome::Trouble { note },
        Class::Hopeless(note) => Outcome::Hopeless { note },
    }
}

/// The CA was away for this name. An outage costs no name its place in the queue; a name that may be the cause joins again at the end,
/// since those that always fail must not keep the ones behind them from being asked for.
fn away(shared: &Shared, domain: &Domain, until: Timestamp, note: Note) -> Outcome {
    match shared.way.may_be_the_cause(domain.id) {
        true => Outcome::Deferred { until, note },
        false => Outcome::CaWaits,
    }
}
