//! Does a chain lead to a root that visitors have? Roots, or a pin, a name and a time in; yes or why not out.
//!
//! A pin stands in for roots that are not known: it names who issued the topmost certificate of the first chain, by subject and key
//! identifier. Whatever chain ends at a certificate of that issuer is taken, so intermediates may be replaced below one root. Every
//! link up to there is verified; the signature of the topmost certificate is not, because the key of its issuer is not known.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_model::{Hostname, Timestamp};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::x509::X509Name;

use super::pair::CLOCK_LEEWAY;
use super::{BadCertificate, Chain, clean, hex, moment};

/// Roots of certificate authorities.
#[derive(Clone, Debug)]
pub(crate) struct Roots(Arc<RootCertStore>);

/// Who issued the topmost certificate of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// SHA-256 of the issuer's name.
    name_sha256: String,
    /// The identifier of its key, where the certificate says it.
    key: Option<String>,
    /// The name, for people.
    name: String,
}

/// To what a chain must lead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchors<'a> {
    Roots(&'a Roots),
    Pin(&'a Pin),
}

/// Why a chain is not deployed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// The leaf alone.
    #[error(
        "the CA sent the certificate alone, without the intermediate that issued it (`{issuer}`)"
    )]
    Incomplete {
        /// Who issued it.
        issuer: String,
    },
    /// No root that is trusted here.
    #[error(
        "the chain that the CA sent leads to `{issuer}`, which is no root that is trusted here; for a private CA set [acme] issuer_roots"
    )]
    UnknownIssuer {
        /// Who issued its last certificate.
        issuer: String,
    },
    /// Not whom the first chain was from.
    #[error(
        "the chain that the CA sent leads to `{issuer}`, and the first one led to `{pinned}`; if the CA has another root, set [acme] issuer_roots, or run `holdfast ca unpin --config FILE`"
    )]
    NotPinned {
        /// Who issued its last certificate.
        issuer: String,
        /// Who issued that of the first chain.
        pinned: String,
    },
    /// The chain does not hold together.
    #[error("the chain that the CA sent does not hold together: {0}")]
    Broken(BadCertificate),
    /// It does not verify.
    #[error("the chain that the CA sent does not verify: {0}")]
    Invalid(String),
    /// Nothing to verify it with.
    #[error(
        "this system has no root certificates: install the package ca-certificates, or set [acme] issuer_roots"
    )]
    NoRoots,
}

impl Roots {
    /// Takes what can be read; a system has roots of every age.
    pub(crate) fn new<'a>(ders: impl Iterator<Item = &'a CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(ders.cloned());
        Self(Arc::new(roots))
    }

    /// Every certificate of a file that an operator names.
    pub(crate) fn parse(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
        let ders: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("it is not PEM of certificates ({error})"))?;
        let mut roots = RootCertStore::empty();
        for der in &ders {
            roots
                .add(der.clone())
                .map_err(|error| format!("it holds what is no root certificate ({error})"))?;
        }
        if ders.is_empty() { Err("it holds no certificate".to_owned()) } else { Ok(ders) }
    }
}

/// May this chain be deployed? Gives until when it verifies: an intermediate may end before the leaf.
pub(crate) fn judge(
    chain_pem: &str,
    anchors: Anchors<'_>,
    name: &Hostname,
    now: Timestamp,
) -> Result<Timestamp, Untrusted> {
    let chain = Chain::parse(chain_pem).map_err(Untrusted::Broken)?;
    let certificates = chain.certificates().map_err(Untrusted::Broken)?;
    let at = within_leeway(&certificates, now);
    match anchors {
        Anchors::Roots(roots) => verified(&chain, &certificates, roots.clone(), name, at),
        Anchors::Pin(pin) => {
            let place = pin.place_in(&certificates)?;
            let top = chain.der(place);
            let within = |one: &X509Certificate<'_>| {
                moment(one.validity().not_before) <= at && at < moment(one.validity().not_after)
            };
            // An anchor's own time is not looked at, and it is no root here.
            if !certificates.get(place).is_some_and(within) {
                return Err(Untrusted::Invalid("its last certificate is not valid now".to_owned()));
            }
            let roots = Roots::new(top.map(|der| CertificateDer::from(der.to_vec())).iter());
            verified(&chain, &certificates, roots, name, at)
        }
    }
}

fn verified(
    chain: &Chain,
    certificates: &[X509Certificate<'_>],
    roots: Roots,
    name: &Hostname,
    at: Timestamp,
) -> Result<Timestamp, Untrusted> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.0, provider)
        .build()
        .map_err(|_| Untrusted::NoRoots)?;
    let ders: Vec<_> = (0..).map_while(|at| chain.der(at)).map(CertificateDer::from).collect();
    let Some((leaf, others)) = ders.split_first() else {
        return Err(Untrusted::Broken(BadCertificate::NoCertificate));
    };
    let name = ServerName::try_from(name.as_str())
        .map_err(|_| Untrusted::Invalid(format!("`{name}` is no name for TLS")))?;
    let seconds = u64::try_from(at.as_micros() / 1_000_000).unwrap_or_default();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let verify = |others| verifier.verify_server_cert(leaf, others, &name, &[], at);
    // What a visitor needs is the shortest part that leads to a root; what comes after it may have ended long ago.
    let needed =
        (0..=others.len()).find(|&n| others.get(..n).is_some_and(|part| verify(part).is_ok()));
    if let Some(needed) = needed {
        let ends = certificates.iter().take(needed + 1).map(|one| moment(one.validity().not_after));
        return ends.min().ok_or(Untrusted::Broken(BadCertificate::NoCertificate));
    }
    match verify(others) {
        Ok(_) => Err(Untrusted::Invalid("it verifies and does not".to_owned())),
        Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            let issuer = issuer_of_last(certificates);
            match others.is_empty() && !is_self_issued(certificates) {
                true => Err(Untrusted::Incomplete { issuer }),
                false => Err(Untrusted::UnknownIssuer { issuer }),
            }
        }
        Err(error) => Err(Untrusted::Invalid(error.to_string())),
    }
}

/// Does the last certificate name itself as its issuer? Then nothing is missing above it.
fn is_self_issued(certificates: &[X509Certificate<'_>]) -> bool {
    let last = certificates.last();
    last.is_some_and(|last| last.issuer().as_raw() == last.subject().as_raw())
}

/// The time at which it is looked at: what was made just now, by a clock that is a little ahead, is valid now.
fn within_leeway(certificates: &[X509Certificate<'_>], now: Timestamp) -> Timestamp {
    let begun = certificates.iter().map(|one| moment(one.validity().not_before));
    begun.filter(|from| *from <= now.plus(CLOCK_LEEWAY)).fold(now, Timestamp::max)
}

fn issuer_of_last(certificates: &[X509Certificate<'_>]) -> String {
    certificates.last().map(|last| shown(last.issuer())).unwrap_or_default()
}

fn shown(name: &X509Name<'_>) -> String {
    clean(&name.to_string())
}

impl Pin {
    /// What is kept in place of a pin where the first chain led to a root that is known.
    pub const KNOWN_ROOTS: &str = "known-roots";

    /// Of a chain; none of a leaf alone, whose issuer is an intermediate that may be replaced.
    pub(crate) fn of(chain_pem: &str) -> Option<Self> {
        let chain = Chain::parse(chain_pem).ok()?;
        let certificates = chain.certificates().ok()?;
        match certificates.as_slice() {
            [_, .., last] => Some(Self::issuer(last)),
            _ => None,
        }
    }

    /// As it is kept.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (name_sha256, key, name) = (words.next()?, words.next()?, words.next()?);
        let key = (key != "-").then(|| key.to_owned());
        Some(Self { name_sha256: name_sha256.to_owned(), key, name: name.to_owned() })
    }

    /// The issuer's name, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn issuer(certificate: &X509Certificate<'_>) -> Self {
        let issuer = certificate.issuer();
        let key = certificate.iter_extensions().find_map(|one| match one.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(key) => key.key_identifier.as_ref(),
            _ => None,
        });
        // A root may leave out that it issued itself.
        let own = certificate.iter_extensions().find_map(|one| match one.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(key) => Some(key),
            _ => None,
        });
        let own = own.filter(|_| issuer.as_raw() == certificate.subject().as_raw());
        let name = ring::digest::digest(&ring::digest::SHA256, issuer.as_raw());
        Self {
            name_sha256: hex(name.as_ref()),
            key: key.or(own).map(|key| hex(key.0)),
            name: shown(issuer),
        }
    }

    /// Which certificate, beside the leaf, is one of its issuer.
    fn place_in(&self, certificates: &[X509Certificate<'_>]) -> Result<usize, Untrusted> {
        let issuer = || issuer_of_last(certificates);
        if certificates.len() < 2 && !is_self_issued(certificates) {
            return Err(Untrusted::Incomplete { issuer: issuer() });
        }
        let others = certificates.iter().enumerate().skip(1);
        let found = others.into_iter().find(|(_, one)| self.is(&Self::issuer(one)));
        let other = || Untrusted::NotPinned { issuer: issuer(), pinned: self.name.clone() };
        found.map(|(place, _)| place).ok_or_else(other)
    }

    fn is(&self, other: &Self) -> bool {
        let keys = self.key.as_ref().zip(other.key.as_ref());
        self.name_sha256 == other.name_sha256 && keys.is_none_or(|(one, other)| one == other)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name_sha256, self.key.as_deref().unwrap_or("-"), self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::time::OffsetDateTime;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    const NOW: i64 = 1_750_000_000;
    const DAY: u64 = 24 * 3600;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.not_before = at(-400);
        params.not_after = at(400);
        params
    }

    fn at(days: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(NOW).unwrap() + ::time::Duration::days(days)
    }

    fn root(name: &str) -> Authority {
        CertifiedIssuer::self_signed(params(name), KeyPair::generate().unwrap()).unwrap()
    }

    fn below(name: &str, issuer: &Authority) -> Authority {
        CertifiedIssuer::signed_by(params(name), KeyPair::generate().unwrap(), issuer).unwrap()
    }

    fn leaf(issuer: &Authority) -> String {
        let mut params = CertificateParams::new(["shop.example.com".to_owned()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        params.not_before = at(-1);
        params.not_after = at(89);
        params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().pem()
    }

    fn roots(authorities: &[&Authority]) -> Roots {
        let pem: String = authorities.iter().map(|one| one.pem()).collect();
        Roots::new(Roots::parse(&pem).unwrap().iter())
    }

    fn judged(chain: &str, anchors: Anchors<'_>) -> Result<Timestamp, Untrusted> {
        judged_at(chain, anchors, Timestamp::from_seconds(NOW))
    }

    fn judged_at(
        chain: &str,
        anchors: Anchors<'_>,
        now: Timestamp,
    ) -> Result<Timestamp, Untrusted> {
        judge(chain, anchors, &Hostname::parse("shop.example.com").unwrap(), now)
    }

    #[test]
    fn a_chain_is_good_until_the_first_of_what_it_needs_ends() {
        let (known, old) = (root("Known"), root("Old"));
        let mut ending = params("Intermediate");
        ending.not_after = at(10);
        let ending =
            CertifiedIssuer::signed_by(ending, KeyPair::generate().unwrap(), &known).unwrap();
        let lasting = below("Intermediate", &known);
        let roots = roots(&[&known]);
        let until = |chain: &str| judged(chain, Anchors::Roots(&roots)).unwrap();
        let day = |day: u64| Timestamp::from_seconds(NOW).plus(Duration::from_secs(day * DAY));
        assert_eq!(until(&(leaf(&lasting) + &lasting.pem())), day(89));
        assert_eq!(until(&(leaf(&ending) + &ending.pem())), day(10));
        // What comes after a part that leads to a root is not needed.
        let mut cross = params("Known");
        cross.not_after = at(5);
        let cross = cross.signed_by(known.key(), &old).unwrap().pem();
        assert_eq!(until(&(leaf(&lasting) + &lasting.pem() + &cross)), day(89));
    }

    #[test]
    fn a_chain_leads_to_a_root_that_is_known_or_it_is_not_taken() {
        let (one, other) = (root("One"), root("Other"));
        let intermediate = below("Intermediate", &one);
        let leaf = leaf(&intermediate);
        let chain = leaf.clone() + &intermediate.pem();
        let (known, unknown) = (roots(&[&other, &one]), roots(&[&other]));
        judged(&chain, Anchors::Roots(&known)).unwrap();
        judged(&(chain.clone() + &one.pem()), Anchors::Roots(&known)).unwrap();
        let error = judged(&leaf, Anchors::Roots(&known)).unwrap_err();
        assert_eq!(error, Untrusted::Incomplete { issuer: "CN=Intermediate".to_owned() });
        for chain in [chain.clone(), chain.clone() + &one.pem()] {
            let error = judged(&chain, Anchors::Roots(&unknown)).unwrap_err();
            assert_eq!(error, Untrusted::UnknownIssuer { issuer: "CN=One".to_owned() });
        }
        // A forger's intermediate of the same name.
        let forged = leaf.clone() + &below("Intermediate", &one).pem();
        judged(&forged, Anchors::Roots(&known)).unwrap_err();
        let name = Hostname::parse("other.example.com").unwrap();
        let error = judge(&chain, Anchors::Roots(&known), &name, Timestamp::from_seconds(NOW));
        assert!(matches!(error, Err(Untrusted::Invalid(_))), "{error:?}");
        let empty = Roots::new([].iter());
        assert_eq!(judged(&chain, Anchors::Roots(&empty)), Err(Untrusted::NoRoots));
    }

    #[test]
    fn every_certificate_must_be_valid_now_give_or_take_a_clock() {
        let root = root("One");
        let chain = leaf(&root) + &root.pem();
        let known = roots(&[&root]);
        let moved = |seconds: i64| {
            judged_at(&chain, Anchors::Roots(&known), Timestamp::from_seconds(NOW + seconds))
        };
        let day: i64 = 24 * 3600;
        for seconds in [0, -day, -day - 299, 89 * day - 1] {
            moved(seconds).unwrap();
        }
        for seconds in [-day - 301, 89 * day + 1] {
            assert!(matches!(moved(seconds), Err(Untrusted::Invalid(_))), "{seconds}");
        }
    }

    #[test]
    fn a_pin_takes_other_intermediates_below_one_root_and_nothing_else() {
        let (one, other) = (root("One"), root("Other"));
        let (first, second) = (below("E5", &one), below("E6", &one));
        let chain = leaf(&first) + &first.pem();
        let pin = Pin::of(&chain).unwrap();
        assert_eq!(pin.name(), "CN=One");
        assert_eq!(Pin::parse(&pin.to_string()), Some(pin.clone()));
        let pinned = Anchors::Pin(&pin);
        judged(&chain, pinned).unwrap();
        let rotated = leaf(&second) + &second.pem();
        judged(&rotated, pinned).unwrap();
        judged(&(rotated + &one.pem()), pinned).unwrap();
        let deeper = below("E7", &second);
        judged(&(leaf(&deeper) + &deeper.pem() + &second.pem()), pinned).unwrap();
        let foreign = below("E5", &other);
        let error = judged(&(leaf(&foreign) + &foreign.pem()), pinned).unwrap_err();
        let (issuer, pinned_to) = ("CN=Other".to_owned(), "CN=One".to_owned());
        assert_eq!(error, Untrusted::NotPinned { issuer, pinned: pinned_to });
        // The name of the root alone is not enough, nor is a link that does not hold.
        let namesake = below("E5", &root("One"));
        let error = judged(&(leaf(&namesake) + &namesake.pem()), pinned).unwrap_err();
        assert!(matches!(error, Untrusted::NotPinned { .. }), "{error}");
        judged(&(leaf(&foreign) + &first.pem()), pinned).unwrap_err();
        for alone in [leaf(&first), leaf(&one)] {
            let error = judged(&alone, pinned).unwrap_err();
            assert!(matches!(error, Untrusted::Incomplete { .. }), "{error}");
            assert_eq!(Pin::of(&alone), None);
        }
        let late = Timestamp::from_seconds(NOW).plus(Duration::from_secs(401 * DAY));
        judged_at(&chain, pinned, late).unwrap_err();
    }

    #[test]
    fn a_root_that_comes_along_is_pinned_itself() {
        let one = root("One");
        let first = below("E5", &one);
        let with_root = leaf(&first) + &first.pem() + &one.pem();
        let pin = Pin::of(&with_root).unwrap();
        judged(&with_root, Anchors::Pin(&pin)).unwrap();
        judged(&(leaf(&first) + &first.pem()), Anchors::Pin(&pin)).unwrap();
    }
}
