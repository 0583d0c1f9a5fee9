//! What SQLite would do for each statement. Without statistics it takes every table for large and every index for good; with
//! those of a small time it takes a large table for small.

use std::collections::BTreeSet;

use holdfast_testkit::Scratch;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _, SqliteConnection};

use super::{
    Exception, coverage, is_excepted, kit::opened, made_in, tour::tour, words, work::taken,
};
use crate::{MasterKey, SharedStore};

/// That equals one of these finds no few rows: a condition on nothing else is a scan.
const BROAD: [&str; 12] = [
    "owner",
    "edge_group",
    "state",
    "tenant",
    "directory",
    "account_id",
    "webhook_id",
    "edge_id",
    "kind",
    "code",
    "xid",
    "sealing_key",
];

/// Calls that read everything, once a day or once in a life.
const WHOLE: &[&str] = &[];

const EXCEPTIONS: &[Exception] = &[
    Exception {
        contains: "INDEXED BY domain_forgotten",
        because: "an index of those that nobody would look at",
    },
    Exception {
        contains: "SELECT count(*) AS n FROM acme_order o JOIN domain d",
        because: "orders in flight are few",
    },
    Exception {
        contains: "WHERE account_id = acme_account.id AND ended_at IS NULL LIMIT 1000",
        because: "open orders are few, and no more than so many are read",
    },
    Exception {
        contains: "FROM challenge ORDER BY created_at DESC LIMIT $1",
        because: "the newest, by their index",
    },
    Exception {
        contains: "DELETE FROM sealing_key WHERE id < $1 AND NOT EXISTS",
        because: "one value under a key is enough",
    },
    Exception {
        contains: "FROM domain WHERE due_at >= $3 AND due_at <= $2 LIMIT $1)) AS due",
        because: "each part counts up to a bound",
    },
    Exception {
        contains: "SELECT xid, id FROM event ORDER BY id DESC LIMIT 1",
        because: "the last row",
    },
    Exception {
        contains: "coalesce((SELECT xid FROM event ORDER BY id DESC LIMIT 1), 0)",
        because: "the last row",
    },
    Exception { contains: "AS waiting", because: "the first of the queue is enough" },
    Exception { contains: "AS in_flight", because: "counted up to ten thousand" },
    Exception { contains: "AS enough", because: "a thousand rows" },
    Exception {
        contains: "WHERE o.edge_id = $1 AND o.error_code IS NOT NULL AND d.name > $2",
        because: "what an edge refuses is little",
    },
    Exception {
        contains: "INSERT INTO edge_count",
        because: "counted by one for all, and up to a bound",
    },
    Exception {
        contains: "WHERE o.edge_id = e.id AND o.error_code IS NOT NULL LIMIT 101",
        because: "what an edge refuses is read up to a hundred",
    },
    Exception {
        contains: "SELECT w.*, (SELECT min(due_at) FROM delivery d",
        because: "the first entry of an index",
    },
    Exception {
        contains: "DELETE FROM delivery WHERE webhook_id = $1",
        because: "a webhook goes with all its messages",
    },
    Exception {
        contains: "state = 'CertificateDeploying' AND edge_group = $1",
        because: "no domain stays in that state",
    },
    Exception {
        contains: "WHERE c.directory = $1 AND c.superseded_at IS NULL",
        because: "in the order of the index, up to a bound",
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_sqlite_reads_more_than_it_must() {
    let (directory, key) = (Scratch::new().unwrap(), MasterKey::generate().unwrap());
    let url = format!("sqlite:{}", directory.path().join("holdfast.db").display());
    drop(opened(&url, &key).await);
    let store = opened(&url, &key).await;
    let past = async |sql| {
        SqliteConnection::connect(&url).await.unwrap().execute(sql).await.unwrap();
    };
    tour(&store, &key, "small", past).await;
    assert!(!taken().is_empty(), "nothing was measured");
    let mut raw = SqliteConnection::connect(&url).await.unwrap();
    let mut wrong = Vec::new();
    raw.execute("PRAGMA synchronous = OFF").await.unwrap();
    fill(&mut raw, 1, 1_000).await;
    store.refresh_statistics(None).await.unwrap();
    fill(&mut raw, 1_001, 100_000).await;
    wrong.extend(scans(&url, "statistics of a thousand").await);
    raw.execute("ANALYZE").await.unwrap();
    store.refresh_statistics(None).await.unwrap();
    wrong.extend(too_much_work(&store, &key, "statistics", past).await);
    drop(store);
    coverage::check("sqlite");
    wrong.extend(scans(&url, "statistics").await);
    raw.execute("DELETE FROM sqlite_stat1; DELETE FROM sqlite_stat4").await.unwrap();
    wrong.extend(scans(&url, "no statistics").await);
    assert!(wrong.is_empty(), "{} plans are wrong:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// A plan may look like a range and have no end: what was done tells. A hundred thousand rows take several steps each.
const THOUSANDS: u64 = 200;

/// Calls whose largest statement did more than that among a hundred thousand rows.
async fn too_much_work(
    store: &SharedStore,
    key: &MasterKey,
    with: &str,
    past: impl AsyncFn(&'static str),
) -> Vec<String> {
    taken();
    tour(store, key, with, past).await;
    let large =
        taken().into_iter().filter(|(at, thousands)| *thousands > THOUSANDS && !WHOLE.contains(at));
    large.map(|(at, thousands)| format!("{with}: {at}: {thousands},000 steps")).collect()
}

async fn fill(raw: &mut SqliteConnection, from: u32, to: u32) {
    let sql = include_str!("fixture_sqlite.sql");
    let sql = sql.replace("SELECT 1 UNION", &format!("SELECT {from} UNION"));
    let sql = AssertSqlSafe(sql.replace("n < 100000", &format!("n < {to}")));
    raw.execute(sqlx::raw_sql(sql)).await.unwrap();
}

/// The tables that grow with the installation.
async fn large_tables(raw: &mut SqliteConnection) -> BTreeSet<String> {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut large = BTreeSet::new();
    for row in raw.fetch_all(tables).await.unwrap() {
        let table: String = row.get(0);
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let count: i64 = raw.fetch_one(count).await.unwrap().get(0);
        large.extend(Some(table).filter(|_| count > 50_000));
    }
    assert!(large.len() >= 11, "{large:?}");
    large
}

async fn scans(url: &str, with: &str) -> Vec<String> {
    // Another connection: this one may know other statistics.
    let mut raw = SqliteConnection::connect(url).await.unwrap();
    let large = large_tables(&mut raw).await;
    let mut wrong = Vec::new();
    let texts: BTreeSet<_> = made_in("src/sqlite").iter().map(|made| made.text).collect();
    for text in texts.into_iter().filter(|text| !is_excepted(EXCEPTIONS, text)) {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}"));
        let plan = raw.fetch_all(explain).await.unwrap();
        let steps: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
        let bad: Vec<_> = steps.iter().filter(|step| is_scan(step, text, &large)).collect();
        if !bad.is_empty() {
            wrong.push(format!("{with}: {bad:?}\n{}", words(text)));
        }
    }
    wrong
}

fn is_scan(step: &str, text: &str, large: &BTreeSet<String>) -> bool {
    let mut words = step.split(' ');
    let (what, whom) = (words.next(), words.next().unwrap_or_default());
    if !is_of(whom, text, large) {
        return false;
    }
    match what {
        Some("SCAN") => true,
        Some("SEARCH") => step.contains("AUTOMATIC") || is_broad(step),
        _ => false,
    }
}

/// Does this name in a plan mean a large table? A statement says `table alias`, and its plan the alias.
fn is_of(whom: &str, text: &str, large: &BTreeSet<String>) -> bool {
    let words: Vec<_> = text.split_whitespace().map(|word| word.trim_start_matches('(')).collect();
    let is_alias = |word: &str| word.trim_end_matches([',', ')']) == whom;
    let aliased = words.windows(2).any(|pair| large.contains(pair[0]) && is_alias(pair[1]));
    large.contains(whom) || aliased
}

/// `SEARCH s USING INDEX sealed_owner (owner=?)`
fn is_broad(step: &str) -> bool {
    let Some((_, conditions)) = step.rsplit_once(" (") else { return false };
    let mut conditions = conditions.trim_end_matches(')').split(" AND ");
    conditions.all(|one| one.strip_suffix("=?").is_some_and(|column| BROAD.contains(&column)))
}
