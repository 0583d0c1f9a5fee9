//! The chains that were delivered: the right leaf without its intermediates is not served as desired, since many visitors cannot
//! verify it.
//!
//! What a handshake shows is compared with what was delivered, not verified: which roots this machine has does not matter. A root that is
//! left out, and certificates beside those delivered, are nobody's loss.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_model::Hostname;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::checked::hex;
use crate::turn::blocking;
use crate::{Error, Result};

type Digest = [u8; 32];

/// What visitors need beside the leaf.
pub(crate) type Needed = Arc<[Digest]>;

/// What a handshake showed.
pub(crate) struct Shown {
    leaf: Digest,
    others: Vec<Digest>,
}

/// By name, the leaf that was put in place and what belongs to it.
#[derive(Default)]
pub(crate) struct Chains(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_name: HashMap<Hostname, (Digest, Needed)>,
    /// Each once: few issuers issue for very many names.
    all: HashSet<Needed>,
}

fn of(der: &[u8]) -> Digest {
    let mut found = [0; 32];
    found.copy_from_slice(digest(&SHA256, der).as_ref());
    found
}

/// What visitors need of a chain beside its leaf: everything but roots.
pub(crate) fn needed(chain: &[CertificateDer<'_>]) -> Needed {
    let is_root = |der: &[u8]| {
        X509Certificate::from_der(der)
            .is_ok_and(|(_, parsed)| parsed.issuer().as_raw() == parsed.subject().as_raw())
    };
    chain.iter().skip(1).filter(|one| !is_root(one)).map(|one| of(one)).collect()
}

impl Shown {
    pub(crate) fn new(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let (leaf, others) = chain.split_first()?;
        Some(Self { leaf: of(leaf), others: others.iter().map(|one| of(one)).collect() })
    }

    pub(crate) fn sha256(&self) -> String {
        hex(&self.leaf)
    }
}

impl Chains {
    /// This leaf was put in place with these.
    pub(crate) fn keep(&self, name: &Hostname, leaf: Digest, needed: &Needed) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = match known.all.get(needed) {
            Some(same) => same.clone(),
            None => {
                known.all.insert(needed.clone());
                needed.clone()
            }
        };
        known.by_name.insert(name.clone(), (leaf, needed));
    }

    pub(crate) fn forget(&self, name: &Hostname) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_name.remove(name);
    }

    fn known(&self, name: &Hostname) -> Option<(Digest, Needed)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    /// Does a handshake that shows our leaf show what belongs to it? What was put in place before this agent started is read from
    /// its file when it is first asked for.
    pub(crate) async fn check(
        &self,
        name: &Hostname,
        shown: &Shown,
        file: impl FnOnce() -> PathBuf,
    ) -> Result<()> {
        let (leaf, needed) = match self.known(name) {
            Some(known) => known,
            None => {
                let file = file();
                let Some((leaf, needed)) = blocking(move || Ok(read(&file))).await? else {
                    return Ok(());
                };
                self.keep(name, leaf, &needed);
                (leaf, needed)
            }
        };
        let missing = needed.iter().filter(|one| !shown.others.contains(one)).count();
        // Another leaf is told of as such.
        if leaf != shown.leaf || missing == 0 {
            return Ok(());
        }
        Err(Error::ChainIncomplete { name: name.to_string(), missing, needed: needed.len() })
    }
}

fn read(file: &std::path::Path) -> Option<(Digest, Needed)> {
    let pem = zeroize::Zeroizing::new(std::fs::read(file).ok()?);
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).filter_map(Result::<_, _>::ok).collect();
    Some((of(chain.first()?), needed(&chain)))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    /// A leaf, its intermediate, and the root.
    fn chain() -> Vec<CertificateDer<'static>> {
        let authority = |name: &str| {
            let mut params = CertificateParams::new([]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let key = || KeyPair::generate().unwrap();
        let root = CertifiedIssuer::self_signed(authority("root"), key()).unwrap();
        let below = CertifiedIssuer::signed_by(authority("below"), key(), &root).unwrap();
        let leaf = CertificateParams::new(["shop.test".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key(), &below).unwrap();
        vec![leaf.der().clone(), below.der().clone(), root.der().clone()]
    }

    #[tokio::test]
    async fn a_chain_is_complete_without_its_root_and_with_more() {
        let (chain, others, chains) = (chain(), chain(), Chains::default());
        let name = Hostname::parse("shop.test").unwrap();
        chains.keep(&name, of(&chain[0]), &needed(&chain));
        let check = async |shown: &[CertificateDer<'static>]| {
            let shown = Shown::new(shown).unwrap();
            chains.check(&name, &shown, || unreachable!()).await.map_err(|error| error.code())
        };
        assert_eq!(check(&chain).await, Ok(()));
        assert_eq!(check(&chain[..2]).await, Ok(()));
        let more = [&chain[..2], &others].concat();
        assert_eq!(check(&more).await, Ok(()));
        assert_eq!(check(&chain[..1]).await, Err("edge-chain-incomplete"));
        let without = [chain[0].clone(), chain[2].clone()];
        assert_eq!(check(&without).await, Err("edge-chain-incomplete"));
        // Another certificate altogether is another matter.
        assert_eq!(check(&others[..1]).await, Ok(()));
    }
}
