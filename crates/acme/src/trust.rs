//! Which roots a chain must lead to, and the download of one that does.

use std::sync::OnceLock;

use holdfast_gateway::client::system_roots;
use holdfast_model::{Hostname, Timestamp};
use holdfast_store::Secret;
use rustls::pki_types::CertificateDer;

use crate::certificate::{Anchors, BadCertificate, Pair, Pin, Roots, Untrusted, check_pair, judge};
use crate::{Ca, CaConfig, Error};

/// How many other chains of a certificate are looked at.
const ALTERNATES: usize = 4;

/// The roots of what the CA issues, as far as they are known.
pub(crate) struct Trust {
    given: Vec<CertificateDer<'static>>,
    with_system: bool,
    /// May they be unknown? Then the first chain says which issuer to expect.
    may_pin: bool,
    // Reading the system's takes longer than a request.
    roots: OnceLock<Roots>,
}

impl Trust {
    pub(crate) fn of(config: &CaConfig) -> Result<Self, Error> {
        let parse = |pem: &str| Roots::parse(pem).map_err(Error::IssuerRoots);
        let (given, with_system, may_pin) =
            match (&config.issuer_roots_pem, &config.extra_roots_pem) {
                (Some(pem), _) => (parse(pem)?, false, false),
                // A private CA: what it issues often leads to the root of its own TLS too.
                (None, Some(pem)) => (parse(pem)?, true, true),
                (None, None) => (Vec::new(), true, false),
            };
        Ok(Self { given, with_system, may_pin, roots: OnceLock::new() })
    }

    fn roots(&self) -> &Roots {
        self.roots.get_or_init(|| {
            let system = if self.with_system { system_roots() } else { &[] };
            Roots::new(self.given.iter().chain(system))
        })
    }
}

/// Are these the roots of a CA, in PEM?
///
/// # Errors
/// When there is none, or something else among them.
pub fn check_issuer_roots(pem: &str) -> Result<(), Error> {
    Roots::parse(pem).map(drop).map_err(Error::IssuerRoots)
}

/// What was ordered.
struct Ordered<'a> {
    name: &'a Hostname,
    key: &'a Secret,
    now: Timestamp,
}

impl Ca {
    /// Downloads the certificate of an order that is valid, with a chain that leads to a root that visitors have: the one that the CA
    /// gives first, or one of the others that it names.
    ///
    /// # Errors
    /// When there is none, or the CA fails or refuses. [`Error::WrongCertificate`] when the certificate is not what was ordered,
    /// [`Error::Untrusted`] when it is, and no chain leads to a root.
    pub async fn certificate_for(
        &self,
        order_url: &str,
        name: &Hostname,
        key: &Secret,
        now: Timestamp,
    ) -> Result<Pair, Error> {
        let ordered = Ordered { name, key, now };
        let downloaded = self.download(order_url).await?;
        let error = match self.judged(&downloaded.chain_pem, &ordered).await {
            Err(error @ Error::Untrusted(_)) => error,
            judged => return judged,
        };
        for url in downloaded.alternates.iter().take(ALTERNATES) {
            let judged = match self.alternate(url).await {
                Ok(chain_pem) => self.judged(&chain_pem, &ordered).await,
                Err(error) => Err(error),
            };
            match judged {
                Ok(pair) => return Ok(pair),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(%name, url, error, "another chain of the certificate is no better");
                }
            }
        }
        Err(error)
    }

    async fn judged(&self, chain_pem: &str, ordered: &Ordered<'_>) -> Result<Pair, Error> {
        let Ordered { name, key, now } = *ordered;
        let pair = check_pair(name, chain_pem, key, now).map_err(unfit)?;
        match judge(&pair.chain_pem, Anchors::Roots(self.0.trust.roots()), name, now) {
            Ok(until) => {
                self.note_known_roots().await;
                Ok(Pair { until, ..pair })
            }
            Err(why) if self.0.trust.may_pin => self.pinned(pair, ordered, why).await,
            Err(why) => Err(Error::Untrusted(why)),
        }
    }

    /// A CA whose first chain leads to a root that is known is held to that: a foreign chain that comes later pins nothing. The store is
    /// asked each time, since a person may have unpinned the issuer meanwhile.
    async fn note_known_roots(&self) {
        if !self.0.trust.may_pin {
            return;
        }
        let noted = async {
            let account = self.0.store.account(self.directory(), self.limits()).await?;
            if let Some(account) = account.filter(|account| account.pin.is_none()) {
                self.0.store.pin_issuer(account.id, Pin::KNOWN_ROOTS).await?;
            }
            Ok::<_, holdfast_store::Error>(())
        };
        if let Err(error) = noted.await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the roots of what the CA issues were not noted");
        }
    }

    /// The roots are not known: the first chain of the account decides who issues, and what it issued by another is not taken.
    async fn pinned(
        &self,
        pair: Pair,
        ordered: &Ordered<'_>,
        why: Untrusted,
    ) -> Result<Pair, Error> {
        let fits = |pin: &Pin| {
            let judged = judge(&pair.chain_pem, Anchors::Pin(pin), ordered.name, ordered.now);
            judged.map_err(Error::Untrusted)
        };
        let Some(account) = self.0.store.account(self.directory(), self.limits()).await? else {
            return Err(Error::Untrusted(why));
        };
        let kept = match account.pin {
            Some(kept) => kept,
            None => {
                let Some(first) = Pin::of(&pair.chain_pem) else {
                    return Err(Error::Untrusted(why));
                };
                fits(&first)?;
                tracing::warn!(
                    directory = self.directory(),
                    issuer = first.name(),
                    "the issuer of the first chain is pinned: name its root in [acme] issuer_roots"
                );
                self.0.store.pin_issuer(account.id, &first.to_string()).await?
            }
        };
        match Pin::parse(&kept) {
            Some(pin) => fits(&pin).map(|until| Pair { until, ..pair.clone() }),
            None => Err(Error::Untrusted(why)),
        }
    }
}

/// What is wrong with the leaf is wrong for good; what is wrong with its issuers may be mended by another download.
fn unfit(error: BadCertificate) -> Error {
    match error {
        BadCertificate::BrokenChain { .. } | BadCertificate::LeafIsCa(_) => {
            Error::Untrusted(Untrusted::Broken(error))
        }
        error => Error::WrongCertificate(error),
    }
}
