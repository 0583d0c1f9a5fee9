//! A job that runs on one of many processes, wherever the lease is.
//!
//! `cargo run -p holdfast-lease --example singleton_job`

use std::time::Duration;

use holdfast_lease::store::MemoryStore;
use holdfast_lease::{Elector, Error, Name, Options, Wish};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = MemoryStore::new();
    let options = Options::with_lease(Duration::from_secs(3), Duration::from_secs(1));
    let name = Name::new("nightly-report")?;
    let mut electors = Vec::new();
    for _ in 0..3 {
        let elector = Elector::start(store.clone(), &options)?;
        let lease = elector.contend(&name, Wish::default());
        let holder = elector.holder().clone();
        tokio::spawn(async move {
            let job = |work: holdfast_lease::Work| {
                let holder = holder.clone();
                async move {
                    println!("{holder} works in term {}", work.token().term);
                    work.cancelled().await;
                    println!("{holder} stops");
                }
            };
            lease.run_while_leader(job).await
        });
        electors.push(elector);
    }
    for elector in electors {
        tokio::time::sleep(Duration::from_secs(1)).await;
        elector.shut_down(Duration::from_secs(5)).await?;
    }
    Ok(())
}
