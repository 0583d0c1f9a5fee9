//! One handler per working state. Each does one thing, is safe to run twice, and says what happened.

mod challenge;
mod damage;
mod deployment;
mod dns;
mod download;
mod order;
mod removal;
mod renewal;

use std::time::Duration;

use holdfast_acme::Class;
use holdfast_model::{Domain, Note, Outcome, State};
use holdfast_store::{Claimed, Error, Products};

pub use dns::expectation;
pub(crate) use removal::remove;

use crate::{
    account::STOPPED,
    dispatch::{Shared, Spot},
    waits::{self, NotNow, Waits},
};

/// For how long an account is said to be unusable until an order is given up that may have been finalized.
const UNUSABLE_FOR: Duration = Duration::from_secs(30);

/// What happened, and what came of it.
pub(crate) struct Step {
    pub(crate) outcome: Outcome,
    pub(crate) products: Products,
}

impl From<Outcome> for Step {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, products: Products::default() }
    }
}

/// Runs the handler of the domain's state.
pub(crate) async fn handle(
    shared: &Shared,
    claimed: &Claimed,
    spot: &dyn Spot,
) -> Result<Step, Error> {
    match claimed.domain.state {
        State::Initial => Ok(intake(claimed)),
        State::DnsVerifying | State::DnsVerificationFailed => {
            Ok(dns::look(shared, claimed, spot).await)
        }
        State::AcmeOrdering => order::place(shared, claimed).await,
        State::AcmeChallengePreparing => challenge::prepare(shared, claimed).await,
        State::AcmeChallengePrepared => challenge::announce(shared, claimed).await,
        State::AcmeChallengeValidating => challenge::await_verdict(shared, claimed).await,
        State::CertificateDownloading => download::fetch(shared, claimed).await,
        State::CertificateDeploying => deployment::look(shared, claimed).await,
        State::Active => renewal::look(shared, claimed).await,
        // Passed through without an effect; only a crash of an older release could leave a row here.
        State::DnsVerified
        | State::AcmeOrderCreated
        | State::AcmeChallengeValidated
        | State::CertificateDownloaded
        | State::CertificateDeployed
        | State::RenewalDue
        | State::Renewing => Ok(Outcome::Accepted.into()),
        State::AcmeOrderFailed
        | State::AcmeChallengeFailed
        | State::CertificateDownloadFailed
        | State::CertificateDeploymentFailed
        | State::Failed => Ok(Outcome::TimeToRetry.into()),
    }
}

/// A certificate that was brought along goes straight to deployment.
fn intake(claimed: &Claimed) -> Step {
    match claimed.domain.certificate {
        Some(_) => Step {
            outcome: Outcome::Imported,
            products: Products { deploy: true, ..Products::default() },
        },
        None => Outcome::Accepted.into(),
    }
}

/// What a CA's refusal amounts to, in the middle of an order.
async fn refusal(shared: &Shared, domain: &Domain, error: &holdfast_acme::Error) -> Outcome {
    let later = |wait| Some(shared.clock.now().plus(wait));
    match error.class() {
        Class::Wait { scope, after, note } => {
            let said = NotNow { scope, after, note };
            match waits::begin(shared, domain, &said).await {
                Waits::Everybody(until) | Waits::Replica(until) => {
                    Outcome::CaUnavailable { note: said.note, retry_after: Some(until) }
                }
                Waits::Name(until) => Outcome::Deferred { until, note: said.note },
            }
        }
        Class::Unavailable(note) if !shared.way.is_its_own(domain.id, domain.state) => {
            shared.way.fails(shared, domain.state, &note).await;
            Outcome::CaUnavailable { note, retry_after: None }
        }
        // A new order would be a second certificate where this one is issued.
        Class::Unavailable(note) if domain.state == State::CertificateDownloading => {
            Outcome::Trouble { note }
        }
        Class::Unavailable(note) => Outcome::OrderGone { note },
        // Whether it is about the whole account, the next order will tell.
        Class::ActionRequired(note) => Outcome::CaUnavailable { note, retry_after: later(STOPPED) },
        Class::Doubtful(note) if shared.way.is_its_own(domain.id, domain.state) => {
            Outcome::Hopeless { note }
        }
        Class::Trouble(note) | Class::AccountGone(note) => Outcome::Trouble { note },
        Class::Doubtful(note) | Class::OrderGone(note) => Outcome::OrderGone { note },
        Class::AccountUnusable(note) => unusable(shared, domain, note).await,
        Class::Hopeless(note) => Outcome::Hopeless { note },
    }
}

/// The order is that account's; another account needs an order of its own. The domain waits for that in the queue, at no cost. What may
/// have been finalized is given up only once the CA has said so for a while: it may have been a mistake of the CA's.
async fn unusable(shared: &Shared, domain: &Domain, note: Note) -> Outcome {
    shared.way.stopped(shared, &note).await;
    let stayed = shared.clock.now().since(shared.clock.retold(domain).entered_at);
    match domain.state == State::CertificateDownloading && stayed < UNUSABLE_FOR {
        true => Outcome::CaUnavailable { note, retry_after: None },
        false => Outcome::OrderAbandoned,
    }
}

/// The CA did what it was asked for in this domain's state.
async fn got_through(shared: &Shared, domain: &Domain) {
    shared.way.got_through(shared, domain.id, domain.state).await;
}

/// A secret that does not open any more is lost, and will be however often it is tried: what was sealed is taken for absent, and made anew.
fn sealed_or_lost<T>(domain: &Domain, read: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.is_damage() => {
            let (domain, error) = (&domain.name, &error as &dyn std::error::Error);
            tracing::error!(%domain, error, "a secret is lost; what it was for is made anew");
            Ok(None)
        }
        read => read,
    }
}

/// The code of what the journal should hold and does not.
pub(crate) const ORDER_LOST: &str = "order-lost";

/// For what the journal should hold and does not: a new order mends it.
fn nothing_journaled(what: &'static str) -> Step {
    Outcome::OrderGone { note: Note::new(ORDER_LOST, format!("no {what} is journaled")) }.into()
}
