//! The spaces that are explored, their bounds and their sizes, and the seeded bugs that prove the checker can fail.

use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use super::exploration::{CRASHED, DARK, LIFELESS, LOST};
use super::{Bounds, LeaseModel};
use crate::identity::Name;
use crate::protocol::bug::Bug;

/// Two contenders, and long enough for a lease to be taken, to expire and to be taken again.
const BOUNDS: Bounds = Bounds {
    processes: 2,
    ticks: 4,
    terms: 3,
    messages: 2,
    crashes: 0,
    losses: 0,
    doubles: 0,
    lags: 0,
    step_downs: 0,
    set_backs: 0,
    beacon: false,
    cuts: 0,
    restarts: 0,
};

const BEACON: Bounds = Bounds { beacon: true, cuts: 1, restarts: 1, ticks: 1, terms: 2, ..BOUNDS };

/// The most memory this process ever had, in MB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() / 1024
}

/// Explores the whole space, or until a seeded bug is found: the invariants broken, and the examples found.
#[expect(clippy::disallowed_methods, reason = "how long the checker took is printed, nothing more")]
fn check(bounds: Bounds, bug: Option<Bug>) -> (Vec<&'static str>, Vec<&'static str>) {
    let model = LeaseModel { bounds, bug, name: Name::new("x").unwrap() };
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let enough = if bug.is_some() { HasDiscoveries::AnyFailures } else { HasDiscoveries::All };
    let checker = model.checker().threads(threads).finish_when(enough).spawn_dfs().join();
    println!(
        "{bounds:?}, bug {bug:?}: {} states, {} unique, depth {}, {:.1?}, peak memory {} MB",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed(),
        peak_memory()
    );
    let found = checker.discoveries().into_keys();
    let (mut examples, mut broken): (Vec<_>, Vec<_>) =
        found.partition(|found| [LOST, CRASHED, LIFELESS, DARK].contains(found));
    examples.sort_unstable();
    broken.sort_unstable();
    (broken, examples)
}

fn holds(bounds: Bounds) -> Vec<&'static str> {
    let (broken, examples) = check(bounds, None);
    assert!(broken.is_empty(), "{broken:?}");
    examples
}

#[test]
fn the_invariants_hold_through_a_crash_and_a_lost_message() {
    assert_eq!(holds(Bounds { crashes: 1, losses: 1, ticks: 3, ..BOUNDS }), [CRASHED, LOST]);
}

#[test]
fn the_invariants_hold_through_a_request_served_twice() {
    holds(Bounds { doubles: 1, ticks: 3, ..BOUNDS });
}

#[test]
fn the_invariants_hold_through_everything_at_once() {
    let all = Bounds { crashes: 1, losses: 1, doubles: 1, step_downs: 1, ticks: 2, ..BOUNDS };
    holds(all);
}

#[test]
fn the_invariants_hold_while_clocks_fall_behind() {
    holds(Bounds { lags: 1, ticks: 3, ..BOUNDS });
}

#[test]
fn the_invariants_hold_while_clocks_fall_behind_through_a_crash_and_a_lost_message() {
    holds(Bounds { lags: 1, crashes: 1, losses: 1, ticks: 2, ..BOUNDS });
}

#[test]
fn the_invariants_hold_for_three_contenders() {
    holds(Bounds { processes: 3, ticks: 2, messages: 3, ..BOUNDS });
}

#[test]
fn the_invariants_hold_for_three_contenders_through_a_crash_and_a_lost_message() {
    let all = Bounds { crashes: 1, losses: 1, ..BOUNDS };
    holds(Bounds { processes: 3, ticks: 1, messages: 3, ..all });
}

#[test]
fn what_a_beacon_leaves_holds_through_a_cut() {
    assert_eq!(holds(Bounds { restarts: 0, ticks: 2, ..BEACON }), [DARK]);
}

#[test]
#[ignore = "explored by ./dev soak"]
fn deep_a_beacon_through_a_cut_and_a_restart() {
    assert_eq!(holds(BEACON), [DARK]);
}

#[test]
#[ignore = "explored by ./dev soak"]
fn deep_a_beacon_through_a_restart() {
    let longer = Bounds { cuts: 0, ticks: 2, ..BEACON };
    assert!(holds(longer).is_empty(), "a restart passed for a death");
}

#[test]
fn what_a_beacon_leaves_holds_through_a_restart() {
    assert!(holds(Bounds { cuts: 0, ..BEACON }).is_empty(), "a restart passed for a death");
}

/// Longer than the others, and more than `./dev test` has time for.
#[test]
#[ignore = "explored by ./dev soak"]
fn deep_a_crash_and_a_lost_message() {
    assert_eq!(holds(Bounds { crashes: 1, losses: 1, ..BOUNDS }), [CRASHED, LOST]);
}

#[test]
#[ignore = "explored by ./dev soak"]
fn deep_a_request_served_twice() {
    holds(Bounds { doubles: 1, ..BOUNDS });
}

#[test]
#[ignore = "explored by ./dev soak"]
fn deep_clocks_that_fall_behind() {
    holds(Bounds { lags: 1, ..BOUNDS });
}

#[test]
#[ignore = "explored by ./dev soak"]
fn deep_a_clock_set_back() {
    assert_eq!(holds(Bounds { set_backs: 1, ..BOUNDS }), [LIFELESS]);
}

#[test]
fn the_checker_finds_seeded_bugs() {
    let crash = Bounds { crashes: 1, ..BOUNDS };
    let steps = Bounds { step_downs: 1, ..BOUNDS };
    for (bug, bounds, invariant) in [
        (Bug::CachedFlag, BOUNDS, "I"),
        (Bug::TermKept, crash, "I3"),
        (Bug::StealOnEqualExpiry, BOUNDS, "I"),
        (Bug::RowDeletedOnRelease, steps, "I3"),
        (Bug::ReleaseBeforeLocalLoss, steps, "I7"),
        (Bug::BeaconLossIgnored, BEACON, "I5"),
        (Bug::BeaconLossForgotten, BEACON, "I5"),
        (Bug::BeaconGoneByRestart, BEACON, "I5"),
    ] {
        let (broken, _) = check(bounds, Some(bug));
        assert!(broken.iter().any(|found| found.starts_with(invariant)), "{bug:?}: {broken:?}");
    }
}
