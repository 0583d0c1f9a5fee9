//! A certificate that was looked at before it is put anywhere: its key is its own, it is for the name, it is valid now, and
//! it is the one that was announced.

use std::time::SystemTime;

use holdfast_model::Hostname;
use holdfast_store::{Bundle, Change};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls::client::verify_server_name;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use zeroize::Zeroizing;

use crate::chain::{Needed, needed};
use crate::{Bundles, Error, Result, fingerprint};

/// Whatever a parser or TLS objects to.
type Objection = Box<dyn std::error::Error + Send + Sync>;

/// A certificate that may be put in place.
pub(crate) struct Checked {
    pub(crate) name: Hostname,
    pub(crate) print: Print,
    /// What visitors need beside the leaf.
    pub(crate) needed: Needed,
    /// Leaf first, without blank lines.
    pub(crate) chain: String,
    /// The key, without blank lines.
    pub(crate) key: Zeroizing<String>,
}

/// What a certificate is recognised by: by us, and by HAProxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Print {
    pub(crate) sha256: [u8; 32],
    pub(crate) sha1: [u8; 20],
}

impl Print {
    pub(crate) fn of(der: &[u8]) -> Self {
        let mut print = Self { sha256: [0; 32], sha1: [0; 20] };
        print.sha256.copy_from_slice(digest(&ring::digest::SHA256, der).as_ref());
        print.sha1.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, der).as_ref());
        print
    }

    /// Of the first certificate in a PEM file.
    pub(crate) fn of_pem(pem: &[u8]) -> Option<Self> {
        CertificateDer::from_pem_slice(pem).ok().map(|leaf| Self::of(&leaf))
    }

    pub(crate) fn sha256_hex(&self) -> String {
        hex(&self.sha256)
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// The bytes of a fingerprint; none where it is not one.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

impl Checked {
    /// Fetches the certificate of a change and looks at it. The outer error is about the way there, the inner one about the
    /// certificate.
    pub(crate) async fn fetch(change: &Change, bundles: &dyn Bundles) -> Result<Result<Self>> {
        match bundles.bundle(change).await {
            Ok(Some(bundle)) => {
                let change = change.clone();
                // Checking keys takes the processor for a moment, which others on this thread need not wait for.
                let checked = tokio::task::spawn_blocking(move || Self::of(&bundle, &change));
                checked.await.map_err(|_| Error::Stopped)
            }
            Ok(None) => Ok(Err(Error::Gone)),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Looks at a certificate that is to be put in place for a change.
    pub(crate) fn of(bundle: &Bundle, change: &Change) -> Result<Self> {
        let unusable = |source| Error::Unusable { name: change.name.to_string(), source };
        Self::look_at(bundle, change).map_err(unusable)
    }

    fn look_at(bundle: &Bundle, change: &Change) -> Result<Self, Objection> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(bundle.chain_pem.as_bytes())
            .collect::<Result<_, _>>()?;
        let leaf = chain.first().ok_or("its chain is empty")?;
        let print = Print::of(leaf);
        let name = ServerName::try_from(change.name.as_str())?;
        verify_server_name(&ParsedCertificate::try_from(leaf)?, &name)?;
        is_valid_now(leaf)?;
        let needed = needed(&chain);
        let key = PrivateKeyDer::from_pem_slice(bundle.key.expose())?;
        CertifiedKey::new(chain.clone(), any_supported_type(&key)?).keys_match()?;
        if fingerprint(leaf) != bundle.summary.sha256 {
            return Err("it is not the one that was announced".into());
        }
        let text = std::str::from_utf8(bundle.key.expose())?;
        let (chain, key) = (without_blank_lines(&bundle.chain_pem), without_blank_lines(text));
        Ok(Self { name: change.name.clone(), print, needed, chain: chain.to_string(), key })
    }

    /// Chain and key together.
    pub(crate) fn combined(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}{}", self.chain, *self.key))
    }
}

#[expect(clippy::disallowed_methods, reason = "visitors compare it with their wall clocks too")]
fn is_valid_now(leaf: &[u8]) -> Result<(), Objection> {
    let (_, parsed) = X509Certificate::from_der(leaf)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let (now, validity) = (i64::try_from(now)?, parsed.validity());
    if validity.not_after.timestamp() <= now {
        return Err(format!("it expired at {}", validity.not_after).into());
    }
    // A clock may be behind the CA's; an hour is what CAs allow for.
    if validity.not_before.timestamp() > now + 3_600 {
        return Err(format!("it is not valid before {}", validity.not_before).into());
    }
    Ok(())
}

/// Is this the key of the chain's leaf?
pub(crate) fn fits(chain: &[u8], key: &[u8]) -> bool {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let (Ok(chain), Ok(key)) = (chain, PrivateKeyDer::from_pem_slice(key)) else { return false };
    any_supported_type(&key).is_ok_and(|key| CertifiedKey::new(chain, key).keys_match().is_ok())
}

/// HAProxy takes a blank line for the end.
fn without_blank_lines(pem: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(pem.len() + 1));
    for line in pem.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        let bytes = std::array::from_fn(|at| u8::try_from(at * 8).unwrap());
        assert_eq!(from_hex(&hex(&bytes)), Some(bytes));
        assert_eq!(from_hex("sha-1"), None);
        assert_eq!(from_hex(&"g".repeat(64)), None);
    }

    #[test]
    fn blank_lines_are_left_out_and_the_end_is_an_end() {
        assert_eq!(*without_blank_lines("a\r\n\n  \nb"), "a\nb\n");
        assert_eq!(*without_blank_lines(""), "");
    }
}
