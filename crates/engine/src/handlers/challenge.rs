//! The challenge: fetched and stored where every replica can answer it, announced to the CA, awaited.

use holdfast_acme::{Proof, Verdict, key_and_csr};
use holdfast_model::{Domain, Note, Outcome};
use holdfast_store::{Claimed, Error, Order, Products};

use super::{Step, got_through, nothing_journaled, refusal, sealed_or_lost};
use crate::dispatch::Shared;

/// `AcmeChallengePreparing`: the answer is stored with the commit, before the CA is told.
pub(super) async fn prepare(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    let Some(url) = order(shared, claimed).await?.and_then(|order| order.url) else {
        return Ok(nothing_journaled("order"));
    };
    let (domain, asked) = (&claimed.domain, shared.ca.proof(&url).await);
    if asked.is_ok() {
        got_through(shared, domain).await;
    }
    Ok(match asked {
        Ok(Proof::Needed(challenge)) => Step {
            outcome: Outcome::ChallengeReady,
            products: Products { challenge: Some(challenge), ..Products::default() },
        },
        Ok(Proof::Valid) => sealed(shared, domain, Outcome::AlreadyAuthorized).await,
        Ok(Proof::Invalid(note)) => spent(note).into(),
        Err(error) => refusal(shared, domain, &error).await.into(),
    })
}

/// `AcmeChallengePrepared`: tells the CA to look. Telling it twice is harmless.
pub(super) async fn announce(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    let Some(challenge) = order(shared, claimed).await?.and_then(|order| order.challenge) else {
        return Ok(nothing_journaled("challenge"));
    };
    let domain = &claimed.domain;
    Ok(match shared.ca.accept(&challenge).await {
        Ok(()) => {
            got_through(shared, domain).await;
            Outcome::ChallengeAccepted.into()
        }
        Err(error) => refusal(shared, domain, &error).await.into(),
    })
}

/// `AcmeChallengeValidating`: asks the CA what it found. With a yes, key and CSR are sealed in the same commit.
pub(super) async fn await_verdict(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    let Some(challenge) = order(shared, claimed).await?.and_then(|order| order.challenge) else {
        return Ok(nothing_journaled("challenge"));
    };
    let (domain, asked) = (&claimed.domain, shared.ca.verdict(&challenge).await);
    if asked.is_ok() {
        got_through(shared, domain).await;
    }
    Ok(match asked {
        Ok(Verdict::Valid) => sealed(shared, domain, Outcome::ChallengeValid).await,
        Ok(Verdict::Pending { retry_after }) => {
            let retry_after = retry_after.map(|wait| shared.clock.now().plus(wait));
            Outcome::ChallengePending { retry_after }.into()
        }
        Ok(Verdict::Invalid(note)) => spent(note).into(),
        Err(error) => refusal(shared, domain, &error).await.into(),
    })
}

/// What the CA's policy, or the name's own CAA record, forbids is not tried again by itself.
fn spent(note: Note) -> Outcome {
    match note.code.as_ref() {
        "acme-caa" | "acme-rejected-identifier" => Outcome::Hopeless { note },
        _ => Outcome::ChallengeInvalid { note },
    }
}

/// The open order, if it is at the account we use now: after a change of directory, the old CA's order is left alone.
pub(super) async fn order(shared: &Shared, claimed: &Claimed) -> Result<Option<Order>, Error> {
    let order = sealed_or_lost(&claimed.domain, shared.store.open_order(claimed.domain.id).await)?;
    let Some(order) = order else { return Ok(None) };
    let ours = shared.ca.account().await.map_or(true, |account| account == order.account);
    Ok(ours.then_some(order))
}

async fn sealed(shared: &Shared, domain: &Domain, outcome: Outcome) -> Step {
    let (name, key_type) = (domain.name.clone(), shared.ca.key_type());
    // An RSA key takes long enough to hold up everything else on this thread.
    let made = tokio::task::spawn_blocking(move || key_and_csr(&name, key_type)).await;
    match made {
        Ok(Ok(pair)) => {
            Step { outcome, products: Products { key_and_csr: Some(pair), ..Products::default() } }
        }
        Ok(Err(error)) => refusal(shared, domain, &error).await.into(),
        Err(_) => {
            Outcome::Trouble { note: Note::new("key-generation", "the key could not be made") }
                .into()
        }
    }
}
