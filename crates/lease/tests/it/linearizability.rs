//! I8: what sixteen processes are answered when they ask a real store for the same leases at once is what one lease would have
//! answered them one after another.

mod checker;
mod contender;
mod history;
mod sequential;

use std::process::Command;
use std::time::Duration;

use holdfast_lease::clock::{BootClock, Clock as _, Moment};
use holdfast_lease::store::Store;
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::store::redis::{RedisAddress, RedisStore};
use holdfast_testkit::{Postgres, Process, Redis};

use self::checker::check;
use self::contender::{Contender, LEASES};
use self::history::{Answer, Asked, Op, Shown};

const PROCESSES: u32 = 16;
const OPERATIONS: u32 = 150;
const LIMIT: Duration = Duration::from_secs(10);

/// What a child is told: the store, its number, and when to begin.
const STORE: &str = "HOLDFAST_LEASE_TEST_STORE";
const WHO: &str = "HOLDFAST_LEASE_TEST_WHO";
const BEGIN: &str = "HOLDFAST_LEASE_TEST_BEGIN";

#[expect(clippy::disallowed_methods, reason = "how a test tells its child that it is one")]
fn told(what: &str) -> Option<String> {
    std::env::var(what).ok()
}

fn store(url: &str) -> Box<dyn Store> {
    if url.starts_with("redis") {
        return Box::new(RedisStore::new(RedisAddress::new(url), "lease:", LIMIT).unwrap());
    }
    Box::new(PostgresStore::new(url, LIMIT).unwrap())
}

/// Not a test by itself: what the children of the tests below run.
#[tokio::test]
async fn child() {
    let (Some(url), Some(who), Some(begin)) = (told(STORE), told(WHO), told(BEGIN)) else {
        return;
    };
    let mut contender = Contender::new(store(&url), who.parse().unwrap(), PROCESSES);
    contender.connect().await.unwrap();
    BootClock.sleep_until(Moment::from_nanos(begin.parse().unwrap())).await;
    for _ in 0..OPERATIONS {
        contender.think().await;
        println!("op {}", serde_json::to_string(&contender.act().await).unwrap());
    }
    println!("done");
}

/// Lets sixteen processes loose on a store, and gathers what they wrote down: a history for each lease.
async fn record(url: &str) -> Vec<Vec<Op>> {
    let begin = (BootClock.now() + Duration::from_secs(3)).as_nanos().to_string();
    let children = (0..PROCESSES).map(|who| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["linearizability::child", "--exact", "--nocapture"]);
        command.env(STORE, url).env(WHO, who.to_string()).env(BEGIN, &begin);
        Process::spawn(&format!("contender {who}"), &command).unwrap()
    });
    let children: Vec<Process> = children.collect();
    let mut histories = vec![Vec::new(); LEASES];
    for child in &children {
        child.wait_for_line(Duration::from_secs(120), |line| line == "done").await.unwrap();
        for line in child.log().lines().filter_map(|line| line.strip_prefix("op ")) {
            let op: Op = serde_json::from_str(line).unwrap();
            histories[op.lease].push(op);
        }
    }
    histories
}

/// How many operations were under way at once, at most.
fn crowd(history: &[Op]) -> i64 {
    let ends = history.iter().flat_map(|op| [(op.begun, 1), (op.ended, -1)]);
    let mut ends: Vec<(u64, i64)> = ends.collect();
    ends.sort_unstable();
    let counts = ends.iter().scan(0, |count, (_, by)| {
        *count += by;
        Some(*count)
    });
    counts.max().unwrap_or_default()
}

async fn is_linearizable(url: &str, expires_first: bool) {
    let histories = record(url).await;
    for (lease, history) in histories.iter().enumerate() {
        let count = |wanted: fn(&Op) -> bool| history.iter().filter(|op| wanted(op)).count();
        let granted = count(|op| matches!(&op.answer, Answer::Granted(row) if row.beat == 0));
        let unknown = count(|op| op.answer == Answer::Unknown);
        let verdict = check(history.clone(), expires_first);
        println!(
            "lease {lease}: {} operations, up to {} at once, {granted} terms, {unknown} given up on, {} states explored",
            history.len(),
            crowd(history),
            verdict.explored,
        );
        let shown: String = verdict.stuck.iter().map(|op| format!("{op:?}\n")).collect();
        assert!(verdict.linearizable, "after {}:\n{shown}", verdict.furthest);
        assert!(granted > 10 && crowd(history) > 2, "nobody contended");
        corruptions_are_found(history, expires_first);
    }
}

/// How many times a lie of one kind is told before it counts as believed. A single one may be consistent with everything else:
/// a release that is said not to have been can be taken for an expiry, where nobody looked before the lease would have ended.
const TOLD: usize = 12;

/// The checker can fail: lies of each of these kinds about a real history must be found out.
fn corruptions_are_found(history: &[Op], expires_first: bool) {
    let mut history = history.to_vec();
    history.sort_by_key(|op| op.begun);
    let mut found = 0;
    for (what, lie) in LIES {
        let tellings = (history.len() / 2..history.len()).filter_map(|at| {
            let mut lied = history.clone();
            lie(&mut lied[at]).then_some(lied)
        });
        let mut tellings = tellings.take(TOLD).peekable();
        if tellings.peek().is_none() {
            continue;
        }
        assert!(
            tellings.any(|lied| !check(lied, expires_first).linearizable),
            "{what} was believed"
        );
        found += 1;
    }
    assert!(found >= 4, "only {found} kinds of lies could be told");
}

type Lie = fn(&mut Op) -> bool;

const LIES: &[(&str, Lie)] = &[
    ("a term that fell back", |op| match &mut op.answer {
        Answer::Granted(row) if row.beat == 0 && row.term > 2 => {
            row.term -= 2;
            true
        }
        _ => false,
    }),
    ("a second owner", |op| {
        let Asked::Acquire { ttl, .. } = op.asked else { return false };
        let Answer::Refused(Some(row)) = op.answer else { return false };
        let (since, expires) = (op.at, op.at + ttl);
        let owner = Some(op.who);
        let lied = Shown { owner, beat: 0, ttl, since, expires, step_down: false, ..row };
        op.answer = Answer::Granted(Shown { term: row.term + 1, successor: None, ..lied });
        true
    }),
    ("a renewal that was not", |op| match &op.answer {
        Answer::Gone(Some(row)) if row.owner.is_some() => {
            op.answer = Answer::Kept { step_down: row.step_down, successor: row.successor };
            true
        }
        _ => false,
    }),
    ("a release that was not", |op| match (&op.asked, &mut op.answer) {
        (Asked::Release { .. }, Answer::Done(done @ true)) => {
            *done = false;
            op.not_after = i64::MAX;
            true
        }
        _ => false,
    }),
    ("an old row", |op| match &mut op.answer {
        Answer::Seen(Some(row)) if row.beat > 0 => {
            row.beat -= 1;
            true
        }
        _ => false,
    }),
    ("an expiry nobody set", |op| match &mut op.answer {
        Answer::Seen(Some(row)) if row.owner.is_some() => {
            row.expires += 3_600_000_000;
            true
        }
        _ => false,
    }),
];

#[tokio::test]
async fn sixteen_processes_on_postgres_see_one_lease() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    PostgresStore::new(&url, LIMIT).unwrap().apply_schema().await.unwrap();
    is_linearizable(&url, true).await;
}

#[tokio::test]
async fn sixteen_processes_on_redis_see_one_lease() {
    let redis = Redis::start().await.unwrap();
    is_linearizable(&redis.url(), false).await;
}

fn acquire(who: u32, begun: u64, at: i64, answer: Answer) -> Op {
    let asked = Asked::Acquire { above: 0, ttl: 100, priority: 0, unchanged: None };
    Op { who, lease: 0, begun, ended: begun + 5, asked, not_after: i64::MAX / 4, answer, at }
}

fn granted(who: u32, term: i64, at: i64) -> Answer {
    let (owner, expires, since) = (Some(who), at + 100, at);
    let (beat, ttl, priority, step_down, successor) = (0, 100, 0, false, None);
    Answer::Granted(Shown {
        owner,
        term,
        beat,
        ttl,
        expires,
        since,
        priority,
        step_down,
        successor,
    })
}

#[test]
fn an_owner_may_follow_an_expired_one_and_no_other() {
    let first = || acquire(1, 10, 1_000, granted(1, 1, 1_000));
    let after = acquire(2, 20, 1_101, granted(2, 2, 1_101));
    assert!(check(vec![first(), after], false).linearizable);
    let early = acquire(2, 20, 1_100, granted(2, 2, 1_100));
    assert!(!check(vec![first(), early], false).linearizable);
}

#[test]
fn a_request_given_up_on_may_have_acted_or_not_but_not_too_late() {
    let lost = || Op { not_after: 1_050, ..acquire(1, 10, 0, Answer::Unknown) };
    let second = acquire(2, 20, 1_060, granted(2, 1, 1_060));
    assert!(check(vec![lost(), second], false).linearizable, "it did not act");
    let second = acquire(2, 20, 1_160, granted(2, 2, 1_160));
    assert!(check(vec![lost(), second], false).linearizable, "it acted, and expired");
    let second = acquire(2, 20, 1_060, granted(2, 1, 1_060));
    let third = acquire(3, 30, 1_200, granted(3, 3, 1_200));
    assert!(!check(vec![lost(), second, third], false).linearizable, "it acted after its time");
}
