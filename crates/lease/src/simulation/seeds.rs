//! Many seeds, and the seeded bugs that prove the harness can fail.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Plan, World};
use crate::protocol::bug::Bug;

/// How many seeds `./dev test` runs. `HOLDFAST_LEASE_SEEDS` asks for more, `HOLDFAST_LEASE_FIRST` for others, and
/// `HOLDFAST_LEASE_MINUTES` for as many as there is time for.
const SEEDS: u64 = 10_000;

/// How often a long run tells how far it is.
const TOLD_EVERY: u64 = 50_000;

fn run(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    World::new(Plan::draw(seed, bug), false).run()
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long to test, and what to replay, is asked of the test alone"
)]
fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The last steps of a seed, and how to see them all again.
fn show(seed: u64, bug: Option<Bug>) -> String {
    let mut world = World::new(Plan::draw(seed, bug), true);
    let why = world.run().err().unwrap_or_default();
    let trace = world.trace();
    let tail = trace[trace.len().saturating_sub(
        asked("HOLDFAST_LEASE_TRACE").and_then(|lines| usize::try_from(lines).ok()).unwrap_or(60),
    )..]
        .join("\n");
    format!(
        "{tail}\n{why}\nreplay: HOLDFAST_LEASE_SEED={seed} cargo test -p holdfast-lease --lib \
         every_seed_keeps_the_invariants -- --nocapture"
    )
}

/// Runs seeds on all cores until one fails or the time is up: the least that failed, and how many were run.
#[expect(clippy::disallowed_methods, reason = "how long a soak has run is told, and when it ends")]
fn first_failure(
    seeds: Range<u64>,
    time: Duration,
    bug: Option<Bug>,
) -> (Option<(u64, String)>, u64) {
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicU64::new(u64::MAX));
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let search = || {
        while begun.elapsed() < time {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || failed.load(Ordering::Relaxed) < seed {
                return;
            }
            let count = seed - seeds.start;
            if count > 0 && count.is_multiple_of(TOLD_EVERY) {
                println!("{count} seeds kept the invariants, {:.0?}", begun.elapsed());
            }
            if run(seed, bug).is_err() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(search);
        }
    });
    let count = next.into_inner().min(seeds.end) - seeds.start;
    let seed = Some(failed.into_inner()).filter(|seed| *seed < u64::MAX);
    (seed.map(|seed| (seed, run(seed, bug).err().unwrap_or_default())), count)
}

#[test]
fn every_seed_keeps_the_invariants() {
    if let Some(seed) = asked("HOLDFAST_LEASE_SEED") {
        println!("{}", show(seed, None));
        run(seed, None).unwrap();
        return;
    }
    let minutes = asked("HOLDFAST_LEASE_MINUTES");
    let time = minutes.map_or(Duration::MAX, |minutes| Duration::from_secs(60 * minutes));
    let most = if minutes.is_some() { u64::MAX / 2 } else { SEEDS };
    let first = asked("HOLDFAST_LEASE_FIRST").unwrap_or_default();
    let end = first.saturating_add(asked("HOLDFAST_LEASE_SEEDS").unwrap_or(most));
    let (failure, count) = first_failure(first..end, time, None);
    if let Some((seed, _)) = failure {
        panic!("{}", show(seed, None));
    }
    println!("{count} seeds from {first} on kept the invariants");
}

/// Each bug, and the invariants that may name it.
const BUGS: &[(Bug, &[&str])] = &[
    (Bug::DeadlineArmedAtReply, &["I1", "I2"]),
    (Bug::RenewByNameOnly, &["I1", "I2", "I5"]),
    (Bug::CachedFlag, &["I1", "I2"]),
    (Bug::RowDeletedOnRelease, &["I3", "I4"]),
    (Bug::StealOnEqualExpiry, &["I5"]),
    (Bug::ReleaseBeforeLocalLoss, &["I7", "I2"]),
    (Bug::ErrorKeepsLeadership, &["I1", "I2"]),
    (Bug::RetryAsLongAsTheWindow, &["I6"]),
    (Bug::GuardWithoutExpiry, &["I9", "I4"]),
    (Bug::AbandonedRequestActs, &["I6", "I9"]),
    (Bug::SelfNotRecognised, &["I3", "I6", "I9"]),
    (Bug::TermKept, &["I3"]),
    (Bug::ReservationIgnored, &["I5"]),
    (Bug::UnchangedWithoutVersion, &["I1", "I2", "I5"]),
    (Bug::FailbackWithoutCooldown, &["I10"]),
    (Bug::NoPolling, &["I9", "I10"]),
    (Bug::TermOfOwnRowReused, &["I3", "I7"]),
    (Bug::BeaconLossIgnored, &["I5"]),
    (Bug::BeaconLossForgotten, &["I5"]),
    (Bug::BeaconGoneByRestart, &["I5"]),
    (Bug::BeaconNeverNoted, &["I9"]),
    (Bug::ServedAgainDated, &["I5"]),
];

#[test]
fn every_seeded_bug_is_caught() {
    let mut missed = Vec::new();
    for (bug, invariants) in BUGS {
        match first_failure(0..4 * SEEDS, Duration::MAX, Some(*bug)).0 {
            Some((_, why))
                if invariants.iter().any(|invariant| why.contains(&format!(": {invariant}:"))) =>
            {
                println!("{bug:?} is caught: {}", why.chars().take(150).collect::<String>());
            }
            Some((seed, why)) => {
                missed.push(format!("{bug:?} is caught by another invariant, seed {seed}: {why}"));
            }
            None => missed.push(format!("{bug:?} is not caught")),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
