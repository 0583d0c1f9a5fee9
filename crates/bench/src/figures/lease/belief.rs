//! `is_leader()`, beside a bare reading of the clock that it compares with.

use std::hint::black_box;

use anyhow::Result;
use holdfast_lease::clock::{BootClock, Clock as _};
use holdfast_lease::store::MemoryStore;
use holdfast_lease::{Elector, Name, Options, Wish};
use tokio::time::Instant;

use super::ratio;
use crate::figures::Ground;
use crate::sample::Sample;
use crate::table::Table;

const TIMES: u32 = 1_000_000;

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let elector = Elector::start(MemoryStore::new(), &Options::default())?;
    let lease = elector.contend(&Name::new("sweep")?, Wish::default());
    lease.elected().await?;
    let (mut asked, mut read, mut of) = (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..ground.runs {
        let one = nanos(|| {
            black_box(lease.is_leader());
        });
        let other = nanos(|| {
            black_box(BootClock.now());
        });
        asked.push(one);
        read.push(other);
        of.push(one / other);
    }
    ground.say(format!("is_leader() {asked} ns, the bare clock {read} ns"));
    let mut table = Table::new(&["", "ns", "of the bare clock", "limit"]);
    table.row(["`is_leader()`".to_owned(), asked.shown(1), ratio(&of), "1.50".to_owned()]);
    table.row(["the boot clock, bare".to_owned(), read.shown(1)]);
    Ok(format!("**Asking**, {TIMES} times per run.\n\n{}\n", table.markdown()))
}

fn nanos(mut once: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..TIMES {
        once();
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
}
