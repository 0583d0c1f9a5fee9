//! PostgreSQL: many replicas, one database. A file per noun; this one opens the store and says what all of them share.

mod account;
mod add;
mod admit;
mod alert;
mod ca;
mod ca_failure;
mod ca_wait;
mod certificate;
mod challenge;
mod claim;
mod commit;
mod difference;
mod domain;
mod edge;
mod event;
mod event_lag;
mod fence;
mod hindrance;
mod key;
mod maintenance;
mod marks;
mod migration;
mod moment;
mod order;
mod patch;
mod removal;
mod replica;
mod restore;
mod retention;
mod rights;
mod rollback;
mod stranger;
mod task;
mod token;
mod vital;
mod wake;
mod webhook;
mod work;

use std::{sync::Mutex, time::Duration};

use async_trait::async_trait;
use holdfast_lease::session::{Fault, Hosts, Life, Unreachable, ends_session};
use holdfast_model::{State, Timestamp, Wanted};
use sqlx::{PgConnection, Postgres, postgres::PgRow};
use time::OffsetDateTime;
use tokio::sync::OnceCell;

use self::{marks::AllMarks, wake::Herald};
pub(crate) use self::{migration::migrate, rights::missing_rights};
use crate::{
    Error, Hindrance, MasterKey, OpenOptions, Result, Secret,
    keyring::Keyring,
    pool::{Pool, STATEMENT, Source, Statement},
    row::Fields as _,
    shortage::Shortage,
};

/// How often a transaction that lost a deadlock, or met a row that came and went, is tried anew.
const TRIES: u32 = 5;

/// The store on PostgreSQL.
pub(crate) struct PostgresStore {
    pool: Pool<Postgres>,
    keyring: Keyring,
    herald: Herald,
    cluster_secret: OnceCell<Secret>,
    /// When the server began that was last asked whether it can be written.
    server: Mutex<Option<Timestamp>>,
    marks: AllMarks,
}

/// For what was on its way when a statement was given up on.
const MARGIN: Duration = Duration::from_secs(3);

/// How the database is reached.
pub(crate) fn hosts(url: &str) -> Result<Hosts> {
    let hosts = Hosts::parse(url).map_err(|error| Error::BadPostgresUrl(error.to_string()))?;
    let hosts = hosts.with_options(|options| options.statement_cache_capacity(256));
    Ok(hosts.named("holdfast").given_up_after(STATEMENT + MARGIN))
}

/// Sessions that one replica keeps, beside those of its leases: requests, telling others, being told, and asking what a late statement
/// waits for.
pub(crate) const fn sessions(connections: u32) -> u32 {
    connections + 3
}

fn no_session(at: &'static str, source: Unreachable) -> Error {
    match source.is_shared_session() {
        true => Error::SharedSession(source),
        false => Error::NoSession { at, source },
    }
}

/// Sessions for requests.
struct Requests {
    hosts: Hosts,
    longest_life: Duration,
}

#[async_trait]
impl Source<Postgres> for Requests {
    async fn connect(&self, at: &'static str, shortage: &Shortage) -> Result<PgConnection> {
        self.hosts.connect().await.map_err(|source| {
            shortage.note_failure(&source);
            no_session(at, source)
        })
    }

    fn ends_connection(&self, error: &sqlx::Error) -> bool {
        ends_session(error)
    }

    fn longest_life(&self) -> Duration {
        self.longest_life
    }

    async fn hindrance(&self) -> Result<Option<Hindrance>> {
        const AT: &str = "find what statements wait for";
        let session =
            self.hosts.aside().connect().await.map_err(|source| no_session(AT, source))?;
        hindrance::look(session).await
    }
}

/// How a session for requests behaves.
fn bounded(hosts: Hosts) -> Hosts {
    hosts.with_settings([
        // What a request may cost before the server itself ends it: one that was given up on must not act later.
        ("statement_timeout", "15s"),
        ("lock_timeout", "10s"),
        ("idle_in_transaction_session_timeout", "15s"),
        // What was answered is on the disk.
        ("synchronous_commit", "on"),
        // Every statement has an index made for it. Left to its statistics, the server plans for the empty tables of a new
        // installation, keeps the plan, and reads all of the first thousands of domains at every look, until it analyzes them.
        ("enable_seqscan", "off"),
        ("enable_bitmapscan", "off"),
        // Several processes for one statement make it look cheap to read all of a table.
        ("max_parallel_workers_per_gather", "0"),
        // The penalty that keeps scans away looks like a cost that compiling would pay for.
        ("jit", "off"),
    ])
}

/// Under which master key the database was sealed.
pub(crate) async fn master_key_id(url: &str) -> Result<Option<String>> {
    let requests = Requests { hosts: bounded(hosts(url)?), longest_life: Life::LONGEST };
    key::master_key_id(&Pool::new(requests, 1, "BEGIN")).await
}

impl PostgresStore {
    pub(crate) async fn open(
        url: &str,
        master: Option<MasterKey>,
        settings: &OpenOptions,
    ) -> Result<Self> {
        let hosts = hosts(url)?;
        let longest_life = settings.longest_life;
        let requests = Requests { hosts: bounded(hosts.clone()), longest_life };
        let pool = Pool::new(requests, settings.connections, "BEGIN").guarded(fence::guard);
        let store = Self {
            pool,
            keyring: Keyring::new(master),
            herald: Herald::start(hosts),
            cluster_secret: OnceCell::new(),
            server: Mutex::default(),
            marks: AllMarks::default(),
        };
        store.reckon_with_restored_clock().await?;
        store.take_master_key().await?;
        Ok(store)
    }

    /// The answer to a ping: a server that takes no writes is left by every session.
    fn see_that_it_takes_writes(&self, row: &PgRow) -> Result<()> {
        let fault = match (row.flag("standby")?, row.flag("read_only")?) {
            (true, _) => Fault::Standby,
            (false, true) => Fault::ReadOnly,
            (false, false) => return Ok(()),
        };
        self.pool.drop_all();
        Err(Error::TakesNoWrites(fault))
    }
}

#[cfg_attr(test, track_caller)]
fn sql(text: &'static str) -> Statement<Postgres> {
    #[cfg(test)]
    crate::plans::note(text);
    sqlx::query(text)
}

fn time(at: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from(at)
}

fn maybe_time(at: Option<Timestamp>) -> Option<OffsetDateTime> {
    at.map(OffsetDateTime::from)
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// The states this release knows; rows in others are left alone.
fn known_states() -> Vec<&'static str> {
    State::ALL.iter().map(|state| state.as_str()).collect()
}

/// The requests this release knows; rows with others are left alone too.
fn known_wants() -> Vec<&'static str> {
    Wanted::ALL.iter().map(|wanted| wanted.as_str()).collect()
}

fn has_code(error: &Error, codes: &[&str]) -> bool {
    let Error::Database { source, .. } = error else { return false };
    let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| codes.contains(&code.as_ref()))
}

/// Does it again when it only got in another's way.
async fn collision_free<T, R>(run: impl Fn() -> R) -> Result<T>
where
    R: Future<Output = Result<T>>,
{
    let mut tries = 0;
    loop {
        match run().await {
            Err(error) if is_collision(&error) && tries < TRIES => tries += 1,
            done => return done,
        }
    }
}

/// Did transactions only get in each other's way, so that the same again is right?
fn is_collision(error: &Error) -> bool {
    // Deadlock, serialization, and a unique row that another one wrote between our look and our write.
    has_code(error, &["40P01", "40001", "23505"])
}
