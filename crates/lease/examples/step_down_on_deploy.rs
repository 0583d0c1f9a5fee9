//! A deploy: the old process hands its lease to the new one by name, without a gap of a whole lease.
//!
//! `cargo run -p holdfast-lease --example step_down_on_deploy`

use std::sync::Arc;
use std::time::Duration;

use holdfast_lease::clock::BootClock;
use holdfast_lease::store::MemoryStore;
use holdfast_lease::{Elector, Error, Holder, Name, Options, Wish};

fn start(store: &MemoryStore, who: &str) -> Result<Elector, Error> {
    let options = Options::with_lease(Duration::from_secs(30), Duration::from_secs(10));
    Elector::start_as(Box::new(store.clone()), &options, Holder::new(who)?, Arc::new(BootClock))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = MemoryStore::new();
    let (old, new) = (start(&store, "web-1")?, start(&store, "web-2")?);
    let name = Name::new("scheduler")?;
    let leaving = old.contend(&name, Wish::default());
    leaving.elected().await?;
    let coming = new.contend(&name, Wish::default());
    leaving.step_down(Some(Holder::new("web-2")?));
    let term = coming.elected().await?;
    println!("web-2 leads in term {term}; web-1 may stop");
    old.shut_down(Duration::from_secs(5)).await
}
