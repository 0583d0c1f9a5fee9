//! What PostgreSQL did for each statement: `auto_explain` tells how many rows and blocks every step of its plan read.

use std::collections::BTreeSet;

use holdfast_testkit::{Durability, Postgres};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

use super::{
    Exception, coverage, is_excepted,
    kit::{SOON, actor, opened},
    tour::tour,
    words,
};
use crate::{Error, MasterKey, SharedStore};

/// No statement takes more at a time; so many rows may be read for one step of its plan.
const ROWS: u64 = 1_500;
/// A row is found within so many blocks of its index, and an index of a large table has far more than these.
const BLOCKS_PER_ROW: u64 = 8;
const BLOCKS: u64 = 250;

const EXCEPTIONS: &[Exception] = &[
    Exception {
        contains: "INSERT INTO edge_count",
        because: "what edges are behind is counted up to ten thousand, by one for all",
    },
    Exception {
        contains: "RETURNING revision), raised AS (",
        because: "those whose removal has waited for an edge for a month are passed over, once an hour",
    },
    Exception { contains: "AS own", because: "a place is counted up to a thousand" },
    Exception { contains: "AS renewals", because: "the queue is counted up to ten thousand" },
];

pub(super) const TELL: [&str; 8] = [
    "session_preload_libraries = 'auto_explain'",
    "auto_explain.log_min_duration = 0",
    "auto_explain.log_analyze = on",
    "auto_explain.log_buffers = on",
    "auto_explain.log_timing = off",
    "auto_explain.log_nested_statements = off",
    "log_min_messages = log",
    "log_statement = none",
];

/// What the planner may know: the tables as they were when they were small, nothing at all as in a new installation, and all.
const STATISTICS: [(&str, &str); 3] = [
    ("statistics of smaller tables", "SELECT"),
    (
        "no statistics",
        "DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace);
         UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0
         WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')",
    ),
    ("statistics", "ANALYZE"),
];

/// One of everything for each of these.
async fn fill(raw: &mut PgConnection, numbers: std::ops::RangeInclusive<u32>) {
    let numbered = format!(
        "CREATE TEMPORARY TABLE n AS SELECT n, ('d0000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid AS domain,
            ('c0000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid AS certificate,
            'd' || lpad(n::text, 6, '0') || '.example.com' AS name
        FROM generate_series({}, {}) n",
        numbers.start(),
        numbers.end()
    );
    raw.execute(AssertSqlSafe(numbered)).await.unwrap();
    raw.execute(sqlx::raw_sql(include_str!("fixture_postgres.sql"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_postgres_reads_more_than_it_must() {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let (url, key) = (server.database().await.unwrap(), MasterKey::generate().unwrap());
    let database = url.rsplit_once('/').unwrap().1;
    drop(opened(&url, &key).await);
    let mut raw = PgConnection::connect(&url).await.unwrap();
    // No statistics by themselves; and no waiting for a disk while the tables are filled.
    for setting in ["autovacuum = off", "full_page_writes = off", "max_wal_size = '4GB'"] {
        let set = AssertSqlSafe(format!("ALTER SYSTEM SET {setting}"));
        raw.execute(set).await.unwrap();
    }
    raw.execute("SELECT pg_reload_conf()").await.unwrap();
    fill(&mut raw, 1..=300).await;
    raw.execute("ANALYZE").await.unwrap();
    fill(&mut raw, 301..=100_000).await;
    let large = large_tables(&mut raw).await;
    for setting in TELL {
        let tell = AssertSqlSafe(format!("ALTER DATABASE {database} SET {setting}"));
        raw.execute(tell).await.unwrap();
    }
    let past = async |sql| {
        let mut unseen = PgConnection::connect(&url).await.unwrap();
        unseen.execute("SET auto_explain.log_min_duration = -1").await.unwrap();
        unseen.execute(sql).await.unwrap();
    };
    let (mut wrong, mut seen, mut letters) = (BTreeSet::new(), 0, (b'a'..=b'z').step_by(2));
    for (with, prepare) in STATISTICS {
        raw.execute(sqlx::raw_sql(prepare)).await.unwrap();
        for mode in ["auto", "force_generic_plan"] {
            let plan =
                AssertSqlSafe(format!("ALTER DATABASE {database} SET plan_cache_mode = {mode}"));
            raw.execute(plan).await.unwrap();
            let store = opened(&url, &key).await;
            // Tokens of a tour have the sum of its letters, and one more.
            let round = format!("round{}", char::from(letters.next().unwrap()));
            tour(&store, &key, &round, past).await;
            lag(&store, &url).await;
            locked(&store, &url).await;
            let log = told(&server, &url).await;
            let bad = read(&log[seen..], &large);
            wrong.extend(bad.iter().map(|one| format!("{with}, {mode}: {one}")));
            seen = log.len();
        }
    }
    coverage::check("postgres");
    assert!(
        wrong.is_empty(),
        "{} plans are wrong:\n{}",
        wrong.len(),
        wrong.into_iter().collect::<Vec<_>>().join("\n\n")
    );
}

/// What holds the event log up is asked for only where something does.
async fn lag(store: &SharedStore, url: &str) {
    let mut open = PgConnection::connect(url).await.unwrap();
    open.execute("BEGIN").await.unwrap();
    open.execute("SELECT pg_current_xact_id()").await.unwrap();
    store.notice(&actor(), "tested", "here", "told").await.unwrap();
    let mut raw = PgConnection::connect(url).await.unwrap();
    raw.execute("SET auto_explain.log_min_duration = -1").await.unwrap();
    let last =
        "UPDATE event SET at = at - interval '1 minute' WHERE xid = (SELECT max(xid) FROM event)";
    raw.execute(last).await.unwrap();
    assert_eq!(store.event_lag().await.unwrap().held_by.len(), 1);
    open.execute("ROLLBACK").await.unwrap();
}

/// Who holds a lock is asked for only where a write waits for it.
async fn locked(store: &SharedStore, url: &str) {
    let mut other = PgConnection::connect(url).await.unwrap();
    other.execute("BEGIN").await.unwrap();
    other.execute("LOCK TABLE setting IN EXCLUSIVE MODE").await.unwrap();
    assert!(matches!(store.check_writes().await.unwrap_err(), Error::Hindered { .. }));
    other.execute("ROLLBACK").await.unwrap();
}

/// The server's log, once it has told of everything before this.
pub(super) async fn told(server: &Postgres, url: &str) -> String {
    let last = format!("last of {}", server.process().log().len());
    let mut raw = PgConnection::connect(url).await.unwrap();
    raw.execute(AssertSqlSafe(format!("SELECT '{last}'"))).await.unwrap();
    server.process().wait_for_line(SOON, |line| line.contains(&last)).await.unwrap();
    server.process().log()
}

/// The tables that grow with the installation.
async fn large_tables(raw: &mut PgConnection) -> BTreeSet<String> {
    let large = "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
        AND pg_relation_size(oid) > 2000000";
    let large: BTreeSet<String> =
        raw.fetch_all(large).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(large.len() >= 11, "{large:?}");
    large
}

/// The plans of a log that read too much, each with its statement.
fn read(log: &str, large: &BTreeSet<String>) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    for told in log.split(" plan:\n\tQuery Text: ").skip(1) {
        // What belongs to one message is indented.
        let told: Vec<_> = told
            .lines()
            .enumerate()
            .take_while(|(n, line)| *n == 0 || line.starts_with('\t'))
            .collect();
        let is_plan = |line: &str| line.contains("(cost=");
        let text: Vec<_> =
            told.iter().map(|(_, line)| *line).take_while(|line| !is_plan(line)).collect();
        let text = words(&text.join(" "));
        let steps: Vec<_> =
            told.iter().map(|(_, line)| *line).skip_while(|line| !is_plan(line)).collect();
        let bad = bad_steps(&steps, large);
        if !bad.is_empty() && !is_excepted(EXCEPTIONS, &text) {
            wrong.insert(format!("{}\n{text}", bad.join("\n")));
        }
    }
    wrong
}

/// A step's line, and those that say more of it.
fn bad_steps(lines: &[&str], large: &BTreeSet<String>) -> Vec<String> {
    let starts: Vec<_> = (0..lines.len()).filter(|at| lines[*at].contains("(cost=")).collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let steps = starts.iter().copied().zip(ends).map(|(start, end)| &lines[start..end]);
    steps.filter(|step| is_bad(step, large)).map(|step| words(&step.join(" "))).collect()
}

/// The number behind these words.
pub(super) fn number(text: &str, after: &str) -> u64 {
    let rest = text.split(after).nth(1).unwrap_or_default();
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

fn is_bad(step: &[&str], large: &BTreeSet<String>) -> bool {
    let head = words(step[0]);
    let Some((kind, rest)) = head.split_once(" on ") else { return false };
    let table = rest.split(' ').next().unwrap();
    if !kind.contains("Scan") || !large.contains(table) || head.contains("never executed") {
        return false;
    }
    let all = step.join(" ");
    let loops = number(&head, " loops=");
    let removed =
        number(&all, "Rows Removed by Filter: ") + number(&all, "Removed by Index Recheck: ");
    let rows = (number(&head, "(actual rows=") + removed) * loops;
    let blocks = number(&all, "Buffers: shared hit=") + number(&all, " read=");
    let sequential = kind.contains("Seq Scan") || kind.contains("Bitmap");
    sequential || rows > ROWS || blocks > BLOCKS + BLOCKS_PER_ROW * rows.max(loops)
}
