//! The master key and the data keys it wraps.
//!
//! Values are sealed (AEAD) under a data key, its id in front, the row's id as associated data. Data keys lie in the database, wrapped
//! under the master key, so `key rotate` changes them on every replica at once: an unknown key id is looked up.

use async_trait::async_trait;

use crate::{Result, Secret};

/// 32 bytes that open everything.
#[derive(Debug, Clone)]
pub struct MasterKey(pub(crate) Secret);

/// How far a rotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Values sealed anew by this call.
    pub resealed: u64,
    /// Is nothing left under an older key?
    pub complete: bool,
}

/// Sealing keys.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Makes a new data key that everything is sealed under from now on.
    async fn new_data_key(&self) -> Result<()>;

    /// Seals up to `limit` older values anew, each by compare-and-swap, and drops data keys that nothing uses.
    async fn reseal(&self, limit: u32) -> Result<Rotation>;

    /// Wraps the data keys under another master key; replicas need it at their next start.
    async fn rewrap(&self, new: &MasterKey) -> Result<()>;

    /// A secret of this installation that all replicas share, for proofs and MACs; made once.
    async fn cluster_secret(&self) -> Result<Secret>;
}
