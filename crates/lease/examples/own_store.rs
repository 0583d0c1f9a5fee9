//! A store of one's own: here around the one in memory, counting calls. It must pass the conformance suite.
//!
//! `cargo run -p holdfast-lease --features conformance --example own_store`

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_lease::conformance::{Harness, run};
use holdfast_lease::request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed};
use holdfast_lease::row::{Entry, Row};
use holdfast_lease::store::{Look, MemoryStore};
use holdfast_lease::{Name, Store, StoreError, Term};

#[derive(Clone)]
struct Counting {
    inner: MemoryStore,
    calls: Arc<AtomicU64>,
}

impl Counting {
    fn counted(&mut self) -> &mut MemoryStore {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &mut self.inner
    }
}

#[async_trait]
impl Store for Counting {
    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError> {
        self.counted().look(names).await
    }
    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError> {
        self.counted().acquire(request).await
    }
    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError> {
        self.counted().renew(request).await
    }
    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError> {
        self.counted().release(request).await
    }
    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError> {
        self.counted().ask(request).await
    }
    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError> {
        self.counted().force(request).await
    }
    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError> {
        self.counted().list(after, limit).await
    }
    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        self.counted().history(name, before, limit).await
    }
    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError> {
        self.counted().prune(older_than).await
    }
    fn disconnect(&mut self) {}
}

#[async_trait]
impl Harness for Counting {
    async fn store(&self) -> Box<dyn Store> {
        Box::new(self.clone())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let store = Counting { inner: MemoryStore::new(), calls: Arc::default() };
    let failures = run(&store).await;
    for failure in &failures {
        println!("not met: {}: {}", failure.requirement, failure.why);
    }
    println!("{} calls, {} failures", store.calls.load(Ordering::Relaxed), failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
