//! What certificates are put on, and looked at.

use async_trait::async_trait;
use holdfast_model::{Hostname, Note};
use holdfast_store::Change;

use crate::{Bundles, Result};

/// A proxy, or whatever else serves TLS.
///
/// The agent never has two calls for the same name under way at once.
#[async_trait]
pub trait Target: Send + Sync {
    /// Puts the certificates of these changes in place, fetching each from `bundles`; none of them is a
    /// tombstone. A result per change, in the same order: a refusal of one must not touch the others. An error
    /// means that the target, or the way to the certificates, is out of order as a whole; all of it is tried again.
    async fn apply(
        &self,
        changes: &[Change],
        bundles: &dyn Bundles,
    ) -> Result<Vec<Result<(), Note>>>;

    /// Stops serving a name; a name that is not served is no error.
    async fn withdraw(&self, name: &Hostname) -> Result<()>;

    /// Makes a handshake with this server name: the SHA-256 of the leaf that was shown, lower-case hex; none when the name
    /// is not served.
    async fn probe(&self, name: &Hostname) -> Result<Option<String>>;

    /// From here on every name that is to be served is applied anew.
    async fn listing_began(&self) -> Result<()> {
        Ok(())
    }

    /// Every name that is to be served was applied since [`listing_began`](Self::listing_began); the rest may go. After a
    /// restored backup (`restored`) the control plane may have forgotten names that are rightly served: they stay.
    async fn listing_ended(&self, restored: bool) -> Result<()> {
        let _ = restored;
        Ok(())
    }
}
