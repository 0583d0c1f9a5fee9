//! Clients at work at once, on as many threads as pgbench is given: each thread has its clients to itself, so that no figure
//! depends on which thread a runtime happens to wake.

use anyhow::{Context as _, Result};
use tokio::runtime::Builder;

use crate::sample::Sample;

/// Threads for this many clients.
pub(super) fn threads(clients: usize) -> usize {
    clients.min(2)
}

/// Lets as many clients work: how long each of their operations took, in microseconds.
pub(super) async fn work<F, Fut>(clients: usize, client: F) -> Result<Vec<f64>>
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<Vec<f64>>> + 'static,
{
    let threads = threads(clients);
    let mut crew = Vec::with_capacity(threads);
    for thread in 0..threads {
        let client = client.clone();
        let mine = (thread..clients).step_by(threads);
        crew.push(tokio::task::spawn_blocking(move || share(mine.map(client))));
    }
    let mut took = Vec::new();
    for share in crew {
        took.extend(share.await.context("a client panicked")??);
    }
    Ok(took)
}

/// One thread's share of the work.
fn share<Fut>(clients: impl Iterator<Item = Fut>) -> Result<Vec<f64>>
where
    Fut: Future<Output = Result<Vec<f64>>> + 'static,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    let working: Vec<_> = clients.map(|client| tasks.spawn_local(client)).collect();
    let ended = async {
        let mut took = Vec::new();
        for client in working {
            took.extend(client.await.context("a client panicked")??);
        }
        Ok(took)
    };
    tasks.block_on(&runtime, ended)
}

/// Two halves of a measurement, the second in the other order: whatever changes meanwhile befalls both alike. The medians.
pub(super) async fn by_turns(
    mut ours: impl AsyncFnMut() -> Result<Vec<f64>>,
    mut bare: impl AsyncFnMut() -> Result<Vec<f64>>,
) -> Result<(f64, f64)> {
    let (mut of_ours, mut of_bare) = (ours().await?, bare().await?);
    of_bare.extend(bare().await?);
    of_ours.extend(ours().await?);
    let median = |took: Vec<f64>| took.into_iter().collect::<Sample>().median();
    Ok((median(of_ours), median(of_bare)))
}
