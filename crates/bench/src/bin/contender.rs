//! A process that contends for one lease, to be killed: `./dev bench lease` starts some.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use holdfast_lease::clock::{BootClock, Clock as _};
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::store::redis::{RedisAddress, RedisStore};
use holdfast_lease::{
    Elector, FullyGuarded, Holder, Leadership, Name, Options, Standing, Store, Wish,
};

/// Contends for one lease, and says so
#[derive(Parser)]
struct Args {
    /// Where the leases are
    #[arg(long)]
    url: String,
    /// How long a lease lasts; it is renewed three times as often
    #[arg(long)]
    lasts_ms: u64,
    /// With a beacon
    #[arg(long)]
    beacon: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let lasts = Duration::from_millis(args.lasts_ms);
    let options = Options::with_lease(lasts, lasts / 3);
    let elector = Elector::start_as(
        store(&args.url, &options)?,
        &options,
        Holder::unique(),
        Arc::new(BootClock),
    )?;
    let lease = contend(&elector, args.beacon)?;
    let mut standing = lease.watch();
    let mut said = false;
    loop {
        match &*standing.borrow_and_update() {
            Standing::Leading(term) => {
                println!("elected {term} at {}", BootClock.now().as_nanos());
            }
            Standing::Following(row) if row.owner.is_some() && !said => {
                said = true;
                println!("following");
            }
            _ => {}
        }
        standing.changed().await?;
    }
}

fn contend(elector: &Elector, beacon: bool) -> Result<Leadership> {
    let name = Name::new("crash")?;
    Ok(if beacon {
        elector.contend_with_beacon(&name, Wish::default(), FullyGuarded)?
    } else {
        elector.contend(&name, Wish::default())
    })
}

fn store(url: &str, options: &Options) -> Result<Box<dyn Store>> {
    let limit = options.request_timeout;
    Ok(if url.starts_with("redis") {
        Box::new(RedisStore::new(RedisAddress::new(url), &options.key_prefix, limit)?)
    } else {
        Box::new(PostgresStore::new(url, limit)?)
    })
}
