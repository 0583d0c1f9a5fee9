//! What certificates are put on, and looked at.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{Hostname, Note};
use holdfast_store::{Adoption, Change, Observation, Stranger};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::{Bundles, Error, Result};

/// What a target holds by itself, across restarts of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Our names, each with the fingerprint that is on disk and loaded; none where something of it is there and
    /// not to be trusted.
    pub held: HashMap<Hostname, Option<String>>,
    /// What is loaded and none of ours.
    pub strangers: Vec<Stranger>,
}

/// How long a target rests between two times that it does something about all of it because single names were doubted.
const DOUBT_REST: Duration = Duration::from_secs(300);

/// When that was last done.
#[derive(Debug, Default)]
pub(crate) struct Doubted(Option<Instant>);

impl Doubted {
    /// May it be done again? Then it counts as done.
    pub(crate) fn may_act(&mut self) -> bool {
        let now = Instant::now();
        let may = self.0.is_none_or(|last| now.duration_since(last) >= DOUBT_REST);
        if may {
            self.0 = Some(now);
        }
        may
    }
}

/// A proxy, or whatever else serves TLS.
///
/// The agent never has two calls for the same name under way at once, but for [`probe`](Self::probe) and
/// [`tend`](Self::tend).
#[async_trait]
pub trait Target: Send + Sync {
    /// Puts the certificates of these changes in place, fetching each from `bundles`; none of them is a
    /// tombstone. A result per change, in the same order: a refusal of one must not touch the others. An error
    /// means that the target, or the way to the certificates, is out of order as a whole; all of it is tried again.
    ///
    /// What is in place before the rest is may be told to `ready`, by its place among the changes: it is looked at meanwhile.
    async fn apply(
        &self,
        changes: &[Change],
        bundles: Arc<dyn Bundles>,
        ready: &UnboundedSender<usize>,
    ) -> Result<Vec<Result<(), Note>>>;

    /// Stops serving these names; a name that is not served is no error. A result per name, in the same order.
    async fn withdraw(&self, names: &[Hostname]) -> Result<Vec<Result<(), Note>>>;

    /// Makes a handshake with this server name: the SHA-256 of the leaf that was shown, lower-case hex; none when the name
    /// is not served.
    async fn probe(&self, name: &Hostname) -> Result<Option<String>>;

    /// Does it listen, and shake hands at all, for whatever name? An error is one about the whole of it.
    async fn answers(&self) -> Result<()> {
        Ok(())
    }

    /// These names were found served otherwise than they were put in place: what is remembered of them is not believed when
    /// they are applied next.
    async fn doubt(&self, names: &[Hostname]) {
        let _ = names;
    }

    /// What is held, after its parts were compared and repaired. None: it keeps nothing, and loads on demand.
    async fn inventory(&self) -> Result<Option<Inventory>> {
        Ok(None)
    }

    /// What is loaded and none of ours, found without changing anything.
    async fn survey(&self) -> Result<Vec<Stranger>> {
        Ok(Vec::new())
    }

    /// Takes files over that are none of ours, each for a name. A result per adoption, in the same order.
    async fn adopt(&self, adoptions: &[Adoption]) -> Result<Vec<Result<(), Note>>> {
        let refused = |adoption: &Adoption| {
            let why = "this edge has no files of others".to_owned();
            Err(Error::NotAdoptable { file: adoption.file.clone(), why }.note())
        };
        Ok(adoptions.iter().map(refused).collect())
    }

    /// What it noticed by itself while it serves, as soon as it does. Dropping the call loses nothing.
    async fn noticed(&self) -> Observation {
        std::future::pending().await
    }

    /// How often it wants to be tended, if at all.
    fn tended_every(&self) -> Option<Duration> {
        None
    }

    /// Looks whether what was put in place is still there, and mends it; was anything mended?
    async fn tend(&self) -> Result<bool> {
        Ok(false)
    }

    /// From here on every name that is to be served is applied anew; for targets that keep nothing.
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
