//! The master key and the data keys it wraps.
//!
//! Values are sealed (AEAD) under a data key, its id in front, the row's id as associated data. Data keys lie in the database, wrapped
//! under the master key, so `key rotate` changes them on every replica at once: an unknown key id is looked up.

use std::fmt::Write as _;

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use zeroize::Zeroizing;

use crate::{Actor, Error, ResealCursor, Resealed, Result, Rotation, SealedValue, Secret};

/// 32 bytes that open everything.
#[derive(Debug, Clone)]
pub struct MasterKey(Secret);

impl MasterKey {
    /// Makes a new one. Nothing else ever does: a key that appears by itself would hide that the right one is missing.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate() -> Result<Self> {
        random::<32>().map(|bytes| Self(Secret::new(bytes.to_vec())))
    }

    /// From base64, as in the key file; white space around it is ignored.
    ///
    /// # Errors
    /// When it is not 32 bytes in base64.
    pub fn parse(text: &str) -> Result<Self> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| Error::BadMasterKey("not base64"))?;
        let key = Self(Secret::new(bytes));
        if key.0.expose().len() != 32 {
            return Err(Error::BadMasterKey("not 32 bytes long"));
        }
        Ok(key)
    }

    /// As base64, for the key file.
    #[must_use]
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0.expose()))
    }

    /// What it is called where it must not be shown.
    #[must_use]
    pub fn id(&self) -> String {
        hex(self.derive("id").get(..8).unwrap_or_default())
    }

    /// Shows that a key of this id is this key.
    pub(crate) fn check_value(&self) -> String {
        hex(&self.derive("check"))
    }

    /// What data keys are wrapped under.
    pub(crate) fn wrapping_key(&self) -> Zeroizing<Vec<u8>> {
        self.derive("wrap")
    }

    fn derive(&self, purpose: &str) -> Zeroizing<Vec<u8>> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.expose());
        let tag = hmac::sign(&key, format!("holdfast master key: {purpose}").as_bytes());
        Zeroizing::new(tag.as_ref().to_vec())
    }
}

/// What this installation answers at `/.well-known/holdfast/{nonce}`: only who shares the secret can say it. Anybody may choose the nonce,
/// so what is signed begins with its purpose, and is good for no other.
#[must_use]
pub fn proof_answer(secret: &Secret, nonce: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    hex(hmac::sign(&key, format!("holdfast-proof:{nonce}").as_bytes()).as_ref())
}

pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    SystemRandom::new().fill(bytes.as_mut()).map_err(|_| Error::NoRandomness)?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Sealing keys.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Makes a new data key that everything is sealed under from now on, and notes that a rotation is under way.
    async fn new_data_key(&self) -> Result<()>;

    /// Seals up to `limit` values under older keys anew, each by compare-and-swap, from `after` on. What does not open is passed over.
    async fn reseal(&self, after: Option<&ResealCursor>, limit: u32) -> Result<Resealed>;

    /// Is a rotation under way, here or anywhere, or was one cut short?
    async fn is_rotating(&self) -> Result<bool>;

    /// Drops data keys that nothing uses, and ends the rotation with an event. Of several that come to its end, one tells.
    async fn end_rotation(&self, rotation: &Rotation, actor: &Actor) -> Result<()>;

    /// Values under older keys, at most `limit`: while no rotation is under way, what the last one could not open.
    async fn sealed_before(&self, limit: u32) -> Result<Vec<SealedValue>>;

    /// Wraps the data keys under another master key; replicas need it at their next start.
    async fn rewrap(&self, new: &MasterKey) -> Result<()>;

    /// A secret of this installation that all replicas share, for proofs and MACs; made once.
    async fn cluster_secret(&self) -> Result<Secret>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_survives_its_file() {
        let key = MasterKey::generate().unwrap();
        let again = MasterKey::parse(&format!("{}\n", key.to_base64().as_str())).unwrap();
        assert_eq!(key.id(), again.id());
        assert_eq!(key.check_value(), again.check_value());
        assert_ne!(key.id(), MasterKey::generate().unwrap().id());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in
            ["", "not base64!", "AAAA", &STANDARD.encode([0; 31]), &STANDARD.encode([0; 33])]
        {
            assert!(matches!(MasterKey::parse(text), Err(Error::BadMasterKey(_))), "{text}");
        }
    }

    #[test]
    fn nothing_shows_the_key() {
        let key = MasterKey::generate().unwrap();
        let shown = format!("{key:?} {} {}", key.id(), key.check_value());
        assert!(!shown.contains(key.to_base64().as_str()));
    }

    #[test]
    fn the_proof_is_a_known_hmac() {
        // RFC 4231, test case 2, with the purpose in front; the digest is of another implementation.
        let secret = Secret::new(b"Jefe".to_vec());
        assert_eq!(
            proof_answer(&secret, "what do ya want for nothing?"),
            "d29f23f4590d7eafb9e467cd8e617ed4bd9a2f3c6530c9a65f0f88aa4bb2976d"
        );
    }

    proptest! {
        #[test]
        fn parsing_is_total(text in ".*") {
            let _ = MasterKey::parse(&text);
        }
    }
}
