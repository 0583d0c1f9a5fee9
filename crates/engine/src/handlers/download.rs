//! `CertificateDownloading`: the only place that finalizes, and only after reading the order. Ready: finalize with the
//! stored CSR; processing: wait; valid: download; anything else: a new order.
//!
//! An order in this state may have been finalized, so a new one may be a second certificate. What may pass is waited for: the same
//! order is tried on the ladder, and given up once it has been so for a while.

use std::time::Duration;

use holdfast_acme::{Class, OrderStatus, Stuck, certificate};
use holdfast_model::{Domain, Note, Outcome, Policy, Timestamp};
use holdfast_store::{Claimed, Error, NewCertificate, Order, OrderTrouble, Products, Secret};

use super::{Step, challenge, got_through, nothing_journaled, refusal};
use crate::dispatch::Shared;

/// How long an order may stay pending although its name is proven.
const PENDING: Duration = Duration::from_secs(60);

pub(super) async fn fetch(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    let Some(order) = challenge::order(shared, claimed).await? else {
        return Ok(nothing_journaled("order"));
    };
    let trouble = order.trouble.clone();
    let Some(journal) = Journal::of(order) else { return Ok(nothing_journaled("key and CSR")) };
    let (domain, settled) = (&claimed.domain, journal.settle(shared).await);
    // One that is valid has got through once its certificate is here.
    if settled.as_ref().is_ok_and(|status| *status != OrderStatus::Valid) {
        got_through(shared, domain).await;
    }
    Ok(match settled {
        Ok(OrderStatus::Valid) => match journal.download(shared, claimed).await {
            Ok(certificate) => {
                got_through(shared, domain).await;
                Step {
                    outcome: Outcome::CertificateIssued,
                    products: Products { certificate: Some(certificate), ..Products::default() },
                }
            }
            Err(error) => failed(shared, domain, trouble.as_ref(), &error).await,
        },
        Ok(OrderStatus::Invalid(note)) => Outcome::OrderGone { note }.into(),
        Ok(OrderStatus::Processing { retry_after }) => {
            let retry_after = retry_after.map(|wait| shared.clock.now().plus(wait));
            Outcome::OrderProcessing { retry_after }.into()
        }
        // The CA has seen the proof and not drawn the conclusion yet. It never will if it said so by mistake: then nothing was issued.
        Ok(OrderStatus::Pending) if stayed(shared, domain) >= PENDING => still_pending().into(),
        Ok(OrderStatus::Pending | OrderStatus::Ready) => {
            Outcome::OrderProcessing { retry_after: None }.into()
        }
        Err(error) => failed(shared, domain, trouble.as_ref(), &error).await,
    })
}

fn stayed(shared: &Shared, domain: &Domain) -> Duration {
    shared.clock.now().since(shared.clock.retold(domain).entered_at)
}

fn still_pending() -> Outcome {
    let detail = "the CA called the name proven, and its order stays pending; another one is made";
    Outcome::OrderGone { note: Note::new("acme-order-gone", detail) }
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

    async fn download(
        self,
        shared: &Shared,
        claimed: &Claimed,
    ) -> Result<NewCertificate, holdfast_acme::Error> {
        let (name, now) = (&claimed.domain.name, shared.clock.now());
        let pair = shared.ca.certificate_for(&self.url, name, &self.key, now).await?;
        let mut summary = certificate::facts(&pair.chain_pem, shared.ca.directory())?;
        summary.not_after = summary.not_after.min(pair.until);
        Ok(NewCertificate { chain_pem: pair.chain_pem, key: self.key, summary })
    }
}

async fn failed(
    shared: &Shared,
    domain: &Domain,
    before: Option<&OrderTrouble>,
    error: &holdfast_acme::Error,
) -> Step {
    let note = || error.class().note().clone();
    // By a clock that has just jumped ahead everything has expired.
    if error.is_expired() && shared.clock.is_unsettled() {
        return Outcome::Trouble { note: note() }.into();
    }
    let Some(stuck) = error.stuck() else { return refusal(shared, domain, error).await.into() };
    let verdict = verdict(&shared.config.policy, stuck, before, shared.clock.now(), note());
    let outcome = match (verdict, error.class()) {
        // So far it may be an outage of the CA, which costs no name a try.
        (Outcome::Trouble { .. }, Class::Unavailable(_)) => refusal(shared, domain, error).await,
        (verdict, _) => verdict,
    };
    let products = Products { order_trouble: Some(stuck.as_str()), ..Products::default() };
    Step { outcome, products }
}

/// Is the order tried again, or given up for a new one?
fn verdict(
    policy: &Policy,
    stuck: Stuck,
    before: Option<&OrderTrouble>,
    now: Timestamp,
    note: Note,
) -> Outcome {
    let patience = match stuck {
        Stuck::Gone => Some(policy.certificate_gone),
        Stuck::Nonsense | Stuck::Early => Some(policy.certificate_useless),
        // A new order would bring the same chain: roots that are missing here must not cost a certificate for each name.
        Stuck::Untrusted => None,
    };
    let same = before.filter(|trouble| trouble.kind == stuck.as_str());
    let lasted = same.map(|trouble| now.since(trouble.since));
    match lasted.zip(patience).is_some_and(|(lasted, patience)| lasted >= patience) {
        true => Outcome::OrderGone { note },
        false => Outcome::Trouble { note },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn given_up(stuck: Stuck, kind: &str, seconds: u64) -> bool {
        let now = Timestamp::from_seconds(1_750_000_000);
        let since = now.minus(Duration::from_secs(seconds));
        let before = OrderTrouble { kind: kind.to_owned(), since };
        let note = Note::new("code", "words");
        match verdict(&Policy::default(), stuck, Some(&before), now, note) {
            Outcome::OrderGone { .. } => true,
            Outcome::Trouble { .. } => false,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn an_order_is_given_up_once_its_certificate_was_gone_for_a_while() {
        assert!(!given_up(Stuck::Gone, "gone", 599));
        assert!(given_up(Stuck::Gone, "gone", 600));
        assert!(!given_up(Stuck::Nonsense, "nonsense", 24 * 3600 - 1));
        assert!(given_up(Stuck::Nonsense, "nonsense", 24 * 3600));
        assert!(given_up(Stuck::Early, "early", 24 * 3600));
        // It was something else before: this has just begun.
        assert!(!given_up(Stuck::Gone, "untrusted", 999_999));
        let (now, note) = (Timestamp::from_seconds(0), Note::new("code", "words"));
        let first = verdict(&Policy::default(), Stuck::Gone, None, now, note);
        assert!(matches!(first, Outcome::Trouble { .. }));
    }

    #[test]
    fn a_chain_that_leads_nowhere_costs_no_second_certificate() {
        assert!(!given_up(Stuck::Untrusted, "untrusted", 365 * 24 * 3600));
    }
}
