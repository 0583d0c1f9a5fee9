//! Sealing and opening: AES-256-GCM under a data key, the key's id in front, the place in the database as
//! associated data, so that a value cannot be moved to another row. Which keys there are is the keyring's business.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use uuid::Uuid;

use crate::{Error, Result, Secret, key::random};

const ID_LEN: usize = 8;

/// Where a sealed value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// What kind of thing it belongs to.
    pub(crate) owner: &'static str,
    /// Which one.
    pub(crate) id: Uuid,
}

impl Place {
    pub(crate) const CLUSTER_SECRET: Self = Self { owner: "cluster", id: Uuid::nil() };

    pub(crate) const fn account(id: Uuid) -> Self {
        Self { owner: "account", id }
    }

    pub(crate) const fn next_account(id: Uuid) -> Self {
        Self { owner: "account-next", id }
    }

    pub(crate) const fn order(id: Uuid) -> Self {
        Self { owner: "order", id }
    }

    pub(crate) const fn certificate(id: Uuid) -> Self {
        Self { owner: "certificate", id }
    }

    pub(crate) const fn webhook(id: Uuid) -> Self {
        Self { owner: "webhook", id }
    }

    /// From what lies in the database; what a newer release seals is none of ours.
    pub(crate) fn read(owner: &str, id: Uuid) -> Option<Self> {
        ["cluster", "account", "account-next", "order", "certificate", "webhook"]
            .into_iter()
            .find(|known| *known == owner)
            .map(|owner| Self { owner, id })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.owner, self.id)
    }
}

/// One AEAD key.
pub(crate) struct SealingKey(LessSafeKey);

impl SealingKey {
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        let key = UnboundKey::new(&AES_256_GCM, bytes)
            .map_err(|_| Error::BadMasterKey("not 32 bytes long"))?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// A random nonce each time: a data key seals far fewer values than the 2^32 that allows.
    pub(crate) fn seal(&self, context: &str, plain: &[u8]) -> Result<Vec<u8>> {
        let nonce: [u8; NONCE_LEN] = *random()?;
        let mut value = plain.to_vec();
        let sealing = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .0
            .seal_in_place_separate_tag(sealing, Aad::from(context.as_bytes()), &mut value)
            .map_err(|_| Error::NoRandomness)?;
        Ok([&nonce, value.as_slice(), tag.as_ref()].concat())
    }

    pub(crate) fn open(&self, context: &str, sealed: &[u8]) -> Option<Secret> {
        let (nonce, value) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut value = value.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.0.open_in_place(nonce, Aad::from(context.as_bytes()), &mut value).ok()?;
        let len = plain.len();
        value.truncate(len);
        Some(Secret::new(value))
    }
}

/// A sealed value and the key it needs.
#[derive(Clone)]
pub(crate) struct Sealed {
    pub(crate) key: i64,
    pub(crate) value: Vec<u8>,
}

impl Sealed {
    pub(crate) fn under(key: i64, sealed: &[u8]) -> Self {
        Self { key, value: [&key.to_be_bytes(), sealed].concat() }
    }
}

/// The id in front, and the rest.
pub(crate) fn split(value: &[u8]) -> Option<(i64, &[u8])> {
    let (id, rest) = value.split_first_chunk::<ID_LEN>()?;
    Some((i64::from_be_bytes(*id), rest))
}
