//! A target that is looked at and never touched.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use holdfast_model::{Hostname, Note};
use holdfast_store::{Adoption, Change};
use tokio::sync::mpsc::UnboundedSender;

use crate::{Bundles, Error, Inventory, Result, Target};

/// Reports what another target serves, and changes neither its disk nor its memory.
pub struct Observing(Arc<dyn Target>);

impl Observing {
    /// Looks at this one.
    #[must_use]
    pub fn new(target: Arc<dyn Target>) -> Self {
        Self(target)
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
        self.0.probe(name).await
    }

    async fn adopt(&self, adoptions: &[Adoption]) -> Result<Vec<Result<(), Note>>> {
        Ok(refused(adoptions))
    }

    /// Nothing counts as held: so every name is looked at, and none is taken away.
    async fn inventory(&self) -> Result<Option<Inventory>> {
        let strangers = self.0.survey().await?;
        Ok(Some(Inventory { held: HashMap::new(), strangers }))
    }
}
