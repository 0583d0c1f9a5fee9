//! Several children that contend for one lease, and what they have written.

use std::process::Command;
use std::time::Duration;

use holdfast_lease::store::postgres::PostgresStore;
use holdfast_testkit::{Faketime, Process, eventually};
use sqlx::{Connection as _, Executor as _, PgConnection};

use super::child::{DATABASE, LASTS, LEASES};

pub(super) const SOON: Duration = Duration::from_secs(90);

/// How long leases last where someone must be followed.
pub(super) const SHORT: Duration = Duration::from_millis(2_400);

/// Where a child lives.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) leases: String,
    pub(super) database: String,
    pub(super) clock: Option<&'a Faketime>,
    pub(super) lasts: Duration,
}

impl Place<'_> {
    /// Leases and counter in the same database, leases short.
    pub(super) fn at(url: &str) -> Self {
        Self { leases: url.to_owned(), database: url.to_owned(), clock: None, lasts: SHORT }
    }

    fn child(&self, name: &str) -> Process {
        let program = std::env::current_exe().unwrap();
        let mut command = match self.clock {
            Some(clock) => clock.command(program),
            None => Command::new(program),
        };
        command.args(["process::child::child", "--exact", "--nocapture"]);
        command.env(LEASES, &self.leases).env(DATABASE, &self.database);
        command.env(LASTS, self.lasts.as_millis().to_string());
        Process::spawn(name, &command).unwrap()
    }
}

/// The children, and the database that they count in.
pub(super) struct Crew<'a> {
    url: String,
    places: Vec<Place<'a>>,
    pub(super) children: Vec<Process>,
    /// Those that were replaced; their last words count.
    gone: Vec<Process>,
}

impl<'a> Crew<'a> {
    /// Makes the tables in the database at this URL, and starts a child in each place.
    pub(super) async fn start(url: &str, places: Vec<Place<'a>>) -> Self {
        let mut store = PostgresStore::new(url, Duration::from_secs(10)).unwrap();
        store.apply_schema().await.unwrap();
        let mut connection = PgConnection::connect(url).await.unwrap();
        let tables = "CREATE TABLE counter (value bigint NOT NULL); INSERT INTO counter VALUES (0); \
                      CREATE TABLE written (id bigint GENERATED ALWAYS AS IDENTITY, term bigint NOT NULL)";
        connection.execute(tables).await.unwrap();
        let mut crew = Self {
            url: url.to_owned(),
            places: Vec::new(),
            children: Vec::new(),
            gone: Vec::new(),
        };
        for place in places {
            crew.join(place);
        }
        crew
    }

    /// Starts one more.
    pub(super) fn join(&mut self, place: Place<'a>) {
        self.children.push(place.child(&format!("child {}", self.children.len())));
        self.places.push(place);
    }

    /// Starts a child anew where one was killed.
    pub(super) fn replace(&mut self, index: usize) {
        let child = self.places[index].child(&format!("child {index}, again"));
        self.gone.push(std::mem::replace(&mut self.children[index], child));
    }

    /// The highest term in which something was written, and how much was in all.
    async fn written(&self) -> Result<(i64, i64), sqlx::Error> {
        let mut connection = PgConnection::connect(&self.url).await?;
        let asked = "SELECT coalesce(max(term), 0), count(*) FROM written";
        sqlx::query_as(asked).fetch_one(&mut connection).await
    }

    /// Waits for a write in a term above this one: the term.
    pub(super) async fn written_above(&self, term: i64) -> i64 {
        eventually(SOON, "a write in a newer term", async || match self.written().await {
            Ok((newer, _)) if newer > term => Ok(newer),
            other => Err(format!("{other:?}")),
        })
        .await
    }

    /// Waits until something more is written than is now: the term of the last.
    pub(super) async fn written_more(&self) -> i64 {
        let now = eventually(SOON, "an answer", async || self.written().await).await;
        eventually(SOON, "another write", async || match self.written().await {
            Ok((term, count)) if count > now.1 => Ok(term),
            other => Err(format!("{other:?}")),
        })
        .await
    }

    /// Which child leads, or led, in a term.
    pub(super) async fn leader(&self, term: i64) -> usize {
        let line = format!("elected {term}");
        let elected = |child: &Process| child.log().lines().any(|logged| logged == line);
        let found = async || self.children.iter().position(elected).ok_or("nobody");
        eventually(SOON, "who was elected", found).await
    }

    /// Waits until this child writes in a term above this one.
    pub(super) async fn led_by(&self, index: usize, above: i64) {
        eventually(SOON, "this child to lead", async || match self.written().await {
            Ok((term, _)) if term > above && self.leader(term).await == index => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// Pauses a child that has no transaction open. A server under libfaketime whose clock runs ahead does not end it: in a signal
    /// handler it sees the right time, and takes its time limits to lie far ahead.
    pub(super) async fn pause_between_writes(&self, index: usize) {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                    AND xact_start IS NOT NULL AND pid <> pg_backend_pid()";
        eventually(SOON, "a moment between two writes", async || {
            self.children[index].pause().unwrap();
            let open: i64 = sqlx::query_scalar(open).fetch_one(&mut connection).await.unwrap();
            if open > 0 {
                self.children[index].resume().unwrap();
                return Err(format!("{open} transactions are open"));
            }
            Ok(())
        })
        .await;
    }

    /// Waits until a child has said this line.
    pub(super) async fn said(&self, index: usize, wanted: impl Fn(&str) -> bool) -> String {
        self.children[index].wait_for_line(SOON, wanted).await.unwrap()
    }

    /// Waits until the late write of a former leader is refused.
    pub(super) async fn refused(&self, index: usize, term: i64) {
        let refused = format!("refused {term}");
        self.said(index, |line| line == refused).await;
    }

    /// What was counted is what was written, and terms never fell.
    pub(super) async fn check(&self) {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let (value, rows, fallen): (i64, i64, i64) = sqlx::query_as(
            "SELECT (SELECT value FROM counter), count(*), count(*) FILTER (WHERE term < highest) \
             FROM (SELECT term, max(term) OVER (ORDER BY id) AS highest FROM written) AS w",
        )
        .fetch_one(&mut connection)
        .await
        .unwrap();
        assert!(rows > 0, "nothing was written");
        assert_eq!(value, rows, "a write was lost");
        assert_eq!(fallen, 0, "a write under an old term came after a newer one");
    }

    /// No two of them believed at the same time that they led.
    pub(super) fn check_beliefs(&self) {
        let mut spans = Vec::new();
        for child in self.children.iter().chain(&self.gone) {
            for (term, from, until) in beliefs(&child.log()) {
                spans.push((from, until, term, format!("{child:?}")));
            }
        }
        spans.sort();
        assert!(spans.len() > 1, "there was no change of leaders: {spans:?}");
        for pair in spans.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "two leaders at once: {pair:?}");
        }
    }
}

/// The terms that a child believed in, each from when until when; one that was killed has at least begun to.
fn beliefs(log: &str) -> Vec<(i64, u64, u64)> {
    let numbers = |line: &str, verb: &str, joint: &str| {
        let (term, moment) = line.strip_prefix(verb)?.split_once(joint)?;
        Some((term.parse::<i64>().ok()?, moment.parse::<u64>().ok()?))
    };
    let until = |wanted: i64| {
        let mut ends = log.lines().filter_map(|line| numbers(line, "led ", " until "));
        ends.find(|(term, _)| *term == wanted).map(|(_, until)| until)
    };
    let begins = log.lines().filter_map(|line| numbers(line, "leads ", " from "));
    begins.map(|(term, from)| (term, from, until(term).unwrap_or(from).max(from))).collect()
}
