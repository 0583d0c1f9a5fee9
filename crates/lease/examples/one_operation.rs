//! A lease for one operation: kept renewed while it runs, refused with who holds it.
//!
//! `cargo run -p holdfast-lease --example one_operation`

use std::time::Duration;

use holdfast_lease::store::MemoryStore;
use holdfast_lease::{Elector, Error, Name, Options};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = MemoryStore::new();
    let options = Options::with_lease(Duration::from_secs(3), Duration::from_secs(1));
    let (here, there) =
        (Elector::start(store.clone(), &options)?, Elector::start(store, &options)?);
    let import = Name::new("import-42")?;
    let refused = here
        .operation(&import, async |work| {
            println!("importing under term {}", work.token().term);
            there.operation(&import, async |_| ()).await
        })
        .await?;
    if let Err(refusal) = refused {
        println!("another instance is processing: {refusal}");
    }
    here.shut_down(Duration::from_secs(5)).await
}
