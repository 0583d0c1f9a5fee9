//! A lease store that tells how long its renewals take: what every lease of this process hangs on, by whatever store.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_lease::{
    Name, Store, StoreError, Term,
    request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed},
    row::{Entry, Row},
    store::{Beacon, Listener, Look},
};
use tokio::time::Instant;

/// A store, and a clock beside it.
pub(crate) struct Timed(pub(crate) Box<dyn Store>);

#[async_trait]
impl Store for Timed {
    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError> {
        self.0.look(names).await
    }

    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError> {
        self.0.acquire(request).await
    }

    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError> {
        let asked = Asked(Instant::now(), "none");
        let renewed = self.0.renew(request).await;
        asked.answered(renewed.is_ok());
        renewed
    }

    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError> {
        self.0.release(request).await
    }

    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError> {
        self.0.ask(request).await
    }

    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError> {
        self.0.force(request).await
    }

    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError> {
        self.0.list(after, limit).await
    }

    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        self.0.history(name, before, limit).await
    }

    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError> {
        self.0.prune(older_than).await
    }

    fn disconnect(&mut self) {
        self.0.disconnect();
    }

    fn listener(&self) -> Option<Box<dyn Listener>> {
        self.0.listener()
    }

    fn beacon(&self) -> Option<Box<dyn Beacon>> {
        self.0.beacon()
    }
}

/// A question under way. Dropped before its answer, it was given up on, which is an outcome too.
struct Asked(Instant, &'static str);

impl Asked {
    fn answered(mut self, ok: bool) {
        self.1 = if ok { "ok" } else { "failed" };
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        metrics::histogram!("holdfast_lease_renewal_seconds", "result" => self.1)
            .record(self.0.elapsed());
    }
}
