//! Is what is stored of a domain's certificate still what was issued? Nobody else can mend a damaged row: it is replaced by a new
//! certificate.

use std::time::Duration;

use holdfast_model::{Domain, Note, Outcome, Timestamp};
use holdfast_store::{Bundle, Error};

use crate::dispatch::Shared;

/// A disk that damages what is written must not cost a certificate each minute: so many are made within the span, damaged or not.
const CERTIFICATES: u32 = 2;
const SPAN: Duration = Duration::from_secs(24 * 3600);

/// What is stored of a certificate.
pub(super) enum Stored {
    Whole(Bundle),
    Damaged(Note),
}

/// Reads it. A certificate of an earlier release has no digest of its chain: then the leaf is compared.
pub(super) async fn read(shared: &Shared, domain: &Domain) -> Result<Stored, Error> {
    let damaged = |why: String| Ok(Stored::Damaged(Note::new(Note::CERTIFICATE_DAMAGED, why)));
    match shared.store.bundle(domain.id).await {
        Ok(Some(bundle)) => match holdfast_acme::certificate::facts(&bundle.chain_pem, "") {
            Ok(facts) if facts.sha256 == bundle.summary.sha256 => Ok(Stored::Whole(bundle)),
            Ok(_) => damaged("the stored certificate is not the one that was issued".to_owned()),
            Err(error) => damaged(error.to_string()),
        },
        Ok(None) => damaged("its private key is missing".to_owned()),
        Err(error) if error.is_damage() => damaged(error.to_string()),
        Err(error) => Err(error),
    }
}

/// What becomes of it: another certificate, or a wait where that was tried lately.
pub(super) async fn replace(
    shared: &Shared,
    domain: &Domain,
    note: Note,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let (name, why) = (&domain.name, &note.detail);
    tracing::error!(domain = %name, %why, "the stored certificate cannot be served");
    let made = shared.store.certificates_since(domain.id, now.minus(SPAN), CERTIFICATES).await?;
    Ok(outcome(note, made))
}

/// With trouble it is looked at again soon, which costs the CA nothing.
fn outcome(note: Note, made: u32) -> Outcome {
    match made < CERTIFICATES {
        true => Outcome::CertificateDamaged { note },
        false => Outcome::Trouble { note },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_goes_on_damaging_costs_one_certificate_a_day_beside_the_first() {
        let outcome = |made| outcome(Note::new(Note::CERTIFICATE_DAMAGED, "x"), made);
        for made in [0, 1] {
            assert!(matches!(outcome(made), Outcome::CertificateDamaged { .. }));
        }
        assert!(matches!(outcome(2), Outcome::Trouble { .. }));
    }
}
