//! Many domains stored, none due: what a start, a look for work and a page of the list cost must not follow how many there are.

mod stored;

use anyhow::Result;

pub(super) use self::stored::Stored;
use super::Ground;
use super::site::Backend;
use crate::network::Network;
use crate::table::Table;

const SIZES: [u32; 3] = [1_000, 10_000, 100_000];

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let network = Network::start(&ground.holdfast).await?;
    let mut all = Vec::new();
    for backend in Backend::BOTH {
        for size in SIZES {
            let stored = Stored::seed(ground, &network, backend, size).await?;
            all.push(stored);
        }
    }
    for number in 0..ground.runs {
        for stored in &mut all {
            stored.run(ground, &network).await?;
            ground.say(format!("run {}: {stored}", number + 1));
        }
    }
    let mut table = Table::new(&[
        "Active domains",
        "idle round, ms",
        "ready, no edge, ms",
        "ready, built-in edge, ms",
        "resident, no edge, MB",
        "resident, built-in edge, MB",
        "first page, ms",
        "last page, ms",
        "issued a second",
        "renewed a second",
    ]);
    for stored in &all {
        table.row(stored.row());
    }
    Ok(format!(
        "Median (lowest–highest) of {} interleaved runs. An idle round is what a worker does when nothing is due: one look for due domains \
         and one for queued ones. Ready is the first 200 of `/health/ready`, from the start of the process. Memory is the most that was resident after reading \
         pages for a while. A page is `GET /v1/domains` with its 100 entries. Issued and renewed are 300 certificates each, with the built-in edge, beside all that is stored. Goals at 100,000: round under 5 ms, ready under \
         2,000 ms, resident under 150 MB, pages under 20 ms.\n\n{}",
        ground.runs,
        table.markdown()
    ))
}
