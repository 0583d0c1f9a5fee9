//! A target that is looked at and never touched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{Hostname, Note};
use holdfast_store::{Adoption, Change, Stranger};
use tokio::sync::mpsc::UnboundedSender;

use crate::{Bundles, Error, Inventory, Result, Target};

/// So often it is looked whether something else is served: it costs a proxy with many certificates seconds.
const AGAIN: Duration = Duration::from_secs(300);

/// Reports what another target serves, and changes neither its disk nor its memory.
pub struct Observing {
    target: Arc<dyn Target>,
    /// What it had when it was last looked at.
    surveyed: Mutex<Vec<Stranger>>,
}

impl Observing {
    /// Looks at this one.
    #[must_use]
    pub fn new(target: Arc<dyn Target>) -> Self {
        Self { target, surveyed: Mutex::default() }
    }

    fn is_news(&self, strangers: &[Stranger]) -> bool {
        let mut surveyed = self.surveyed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *surveyed != strangers;
        *surveyed = strangers.to_vec();
        is_news
    }
}

fn refused<T>(things: &[T]) -> Vec<Result<(), Note>> {
    things.iter().map(|_| Err(Error::ObserveOnly.note())).collect()
}

#[async_trait]
impl Target for Observing {
    async fn apply(
        &self,
        changes: &[Change],
        _: Arc<dyn Bundles>,
        _: &UnboundedSender<usize>,
    ) -> Result<Vec<Result<(), Note>>> {
        Ok(refused(changes))
    }

    async fn withdraw(&self, names: &[Hostname]) -> Result<Vec<Result<(), Note>>> {
        Ok(refused(names))
    }

    async fn probe(&self, name: &Hostname) -> Result<Option<String>> {
        self.target.probe(name).await
    }

    async fn answers(&self) -> Result<()> {
        self.target.answers().await
    }

    async fn adopt(&self, adoptions: &[Adoption]) -> Result<Vec<Result<(), Note>>> {
        Ok(refused(adoptions))
    }

    /// Nothing counts as held: so every name is looked at, and none is taken away.
    async fn inventory(&self) -> Result<Option<Inventory>> {
        let strangers = self.target.survey().await?;
        self.is_news(&strangers);
        Ok(Some(Inventory { held: HashMap::new(), strangers }))
    }

    fn tended_every(&self) -> Option<Duration> {
        Some(AGAIN)
    }

    /// Nothing is mended; what changed is reported.
    async fn tend(&self) -> Result<bool> {
        Ok(self.is_news(&self.target.survey().await?))
    }
}
