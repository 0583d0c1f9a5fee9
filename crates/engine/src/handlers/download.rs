//! `CertificateDownloading`: the only place that finalizes, and only after reading the order. Ready: finalize with the
//! stored CSR; processing: wait; valid: download; anything else: a new order.

use holdfast_acme::{
    OrderStatus,
    certificate::{self, BadCertificate},
};
use holdfast_model::{Note, Outcome};
use holdfast_store::{Claimed, Error, NewCertificate, Order, Products, Secret};

use super::{Step, challenge, nothing_journaled, refusal};
use crate::dispatch::Shared;

pub(super) async fn fetch(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    let Some(order) = challenge::order(shared, claimed).await? else {
        return Ok(nothing_journaled("order"));
    };
    let Some(journal) = Journal::of(order) else { return Ok(nothing_journaled("key and CSR")) };
    Ok(match journal.settle(shared).await {
        Ok(OrderStatus::Valid) => journal.download(shared, claimed).await,
        Ok(OrderStatus::Invalid(note)) => Outcome::OrderGone { note }.into(),
        Ok(OrderStatus::Processing { retry_after }) => {
            let retry_after = retry_after.map(|wait| shared.clock.now().plus(wait));
            Outcome::OrderProcessing { retry_after }.into()
        }
        // The CA has seen the proof and not drawn the conclusion yet.
        Ok(OrderStatus::Pending | OrderStatus::Ready) => {
            Outcome::OrderProcessing { retry_after: None }.into()
        }
        Err(error) => refusal(shared, &claimed.domain, &error).await.into(),
    })
}

/// What was journaled before any of this.
struct Journal {
    url: String,
    key: Secret,
    csr: Vec<u8>,
}

impl Journal {
    fn of(order: Order) -> Option<Self> {
        Some(Self { url: order.url?, key: order.key?, csr: order.csr? })
    }

    async fn settle(&self, shared: &Shared) -> Result<OrderStatus, holdfast_acme::Error> {
        match shared.ca.order(&self.url).await? {
            OrderStatus::Ready => shared.ca.finalize(&self.url, &self.csr).await,
            status => Ok(status),
        }
    }

    async fn download(self, shared: &Shared, claimed: &Claimed) -> Step {
        let chain_pem = match shared.ca.certificate(&self.url).await {
            Ok(chain) => chain,
            Err(error) => return refusal(shared, &claimed.domain, &error).await.into(),
        };
        match self.check(shared, claimed, chain_pem) {
            Ok(certificate) => Step {
                outcome: Outcome::CertificateIssued,
                products: Products { certificate: Some(certificate), ..Products::default() },
            },
            Err(outcome) => outcome.into(),
        }
    }

    fn check(
        self,
        shared: &Shared,
        claimed: &Claimed,
        chain_pem: String,
    ) -> Result<NewCertificate, Outcome> {
        let now = shared.clock.now();
        certificate::check_pair(&claimed.domain.name, &chain_pem, &self.key, now)
            .map_err(|error| wrong(&error))?;
        let summary =
            certificate::facts(&chain_pem, shared.ca.directory()).map_err(|error| wrong(&error))?;
        Ok(NewCertificate { chain_pem, key: self.key, summary })
    }
}

/// A certificate whose time is not now says something of a clock: the order is good, and a second one would not help. Anything
/// else is not what was ordered, and asking for it again will not change it.
fn wrong(error: &BadCertificate) -> Outcome {
    let note = Note::new("wrong-certificate", error.to_string());
    match error {
        BadCertificate::NotYetValid { .. } | BadCertificate::Expired { .. } => {
            Outcome::Trouble { note }
        }
        _ => Outcome::OrderGone { note },
    }
}
