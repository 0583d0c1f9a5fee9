//! Leases in PostgreSQL: one row each, one statement per operation, the server's clock.
//!
//! The store owns one connection, its listener another, and its beacon a third. Each is a session with the host that takes writes
//! ([`crate::session`]); the first ends at the end of its life, the others when they are asked and it is over.

mod beacon;
mod listener;
mod reading;
mod statement;

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row as _};
use uuid::Uuid;

use self::statement::Beacons;
use super::{Beacon, Listener, Look, Store};
use crate::error::{Error, StoreError};
use crate::identity::{Holder, Incarnation, Name, Term};
use crate::request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed};
use crate::row::{Entry, Row, Version};
use crate::session::{Hosts, Life, ends_session};

/// The tables, as text for the host to apply, in its own migrations or by [`PostgresStore::apply_schema`].
pub const SCHEMA: &str = include_str!("schema.sql");

/// The channel on which releases and requests to step down are told.
pub const CHANNEL: &str = "holdfast_lease";

/// Leases in a PostgreSQL database.
pub struct PostgresStore {
    hosts: Hosts,
    connection: Option<(PgConnection, Life)>,
    longest_life: Duration,
    beacon: beacon::Key,
}

impl PostgresStore {
    /// Leases in the database at this URL, which may name several hosts: the one that takes writes is used. Connects at the
    /// first call. No statement runs longer than `request_timeout`, so that one given up on ends by itself.
    pub fn new(url: &str, request_timeout: Duration) -> Result<Self, Error> {
        Ok(Self::with_hosts(Hosts::parse(url)?, request_timeout))
    }

    /// The same, with a caller's own settings of the connection.
    pub fn with_hosts(hosts: Hosts, request_timeout: Duration) -> Self {
        let limit = format!("{}ms", request_timeout.as_millis().max(1));
        let hosts = hosts.named("holdfast-lease").given_up_after(request_timeout).with_settings([
            ("statement_timeout", limit.as_str()),
            ("idle_in_transaction_session_timeout", limit.as_str()),
            ("default_transaction_isolation", "read committed"),
            ("synchronous_commit", "on"),
            // Everything is found by a key, whatever its value, and planning takes longer than doing. A plan that was made for a small
            // table and reads all of it would be kept when it has grown.
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
        ]);
        let longest_life = Life::LONGEST;
        Self { hosts, connection: None, longest_life, beacon: beacon::Key::default() }
    }

    /// Changes how long a connection is used; [`Life::LONGEST`] unless said otherwise.
    #[must_use]
    pub fn with_longest_life(mut self, longest: Duration) -> Self {
        self.longest_life = longest;
        self
    }

    /// Makes the tables where they are missing. For tests and small programs: a host with migrations applies
    /// [`SCHEMA`] there.
    pub async fn apply_schema(&mut self) -> Result<(), StoreError> {
        let mut connection = self.connection("connecting to PostgreSQL").await?;
        let applied = sqlx::raw_sql(SCHEMA).execute(&mut connection.0).await;
        applied.map_err(|error| StoreError::new("applying the lease schema", error))?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Takes the connection out: a call that is dropped or fails drops it too.
    async fn connection(
        &mut self,
        doing: &'static str,
    ) -> Result<(PgConnection, Life), StoreError> {
        if let Some(kept) = self.connection.take().filter(|(_, life)| !life.is_over()) {
            return Ok(kept);
        }
        let opened = self.hosts.connect().await.map_err(|error| StoreError::new(doing, error))?;
        Ok((opened, Life::begin(self.longest_life)))
    }

    fn beacons(&self) -> Beacons {
        if self.beacon.lit().is_some() { Beacons::Minded } else { Beacons::Ignored }
    }

    async fn rows(
        &mut self,
        doing: &'static str,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, StoreError> {
        let mut connection = self.connection(doing).await?;
        let rows = query.fetch_all(&mut connection.0).await;
        if !rows.as_ref().err().is_some_and(ends_session) {
            self.connection = Some(connection);
        }
        rows.map_err(|error| StoreError::new(doing, error))
    }

    async fn one(
        &mut self,
        doing: &'static str,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<PgRow, StoreError> {
        let first = self.rows(doing, query).await?.into_iter().next();
        first.ok_or_else(|| StoreError::new(doing, sqlx::Error::RowNotFound))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn version_parts(version: Option<Version>) -> (bool, Option<Uuid>, i64, i64) {
    match version {
        None => (false, None, 0, 0),
        Some(Version { incarnation, term, beat }) => {
            (true, incarnation.map(|own| Incarnation::as_uuid(&own)), term.number(), beat)
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError> {
        let doing = "looking at leases";
        let texts: Vec<&str> = names.iter().map(Name::as_str).collect();
        let rows =
            self.rows(doing, sqlx::query(statement::look(self.beacons())).bind(texts)).await?;
        reading::looks(&rows, names).map_err(|error| StoreError::new(doing, error))
    }

    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError> {
        let doing = "acquiring a lease";
        let (unchanged, incarnation, term, beat) = version_parts(request.unchanged);
        if unchanged {
            let query = sqlx::query(statement::expire()).bind(request.name.as_str());
            let query = query.bind(incarnation).bind(term).bind(beat);
            self.rows(doing, query.bind(request.not_after.as_micros())).await?;
        }
        let beacon = self.beacon.lit().filter(|_| request.beacon);
        let beacons = if beacon.is_some() { Beacons::Minded } else { Beacons::Ignored };
        let query = sqlx::query(statement::acquire(beacons))
            .bind(request.name.as_str())
            .bind(request.holder.as_str())
            .bind(request.incarnation.as_uuid())
            .bind(request.priority.0)
            .bind(micros(request.ttl))
            .bind(request.above.number())
            .bind(unchanged)
            .bind(incarnation)
            .bind(term)
            .bind(beat)
            .bind(beacon)
            .bind(request.not_after.as_micros());
        let row = self.one(doing, query).await?;
        reading::acquired(&row, request).map_err(|error| StoreError::new(doing, error))
    }

    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError> {
        let doing = "renewing leases";
        let names: Vec<&str> = request.leases.iter().map(|lease| lease.name.as_str()).collect();
        let terms: Vec<i64> = request.leases.iter().map(|lease| lease.term.number()).collect();
        let ttls: Vec<i64> = request.leases.iter().map(|lease| micros(lease.ttl)).collect();
        let query = sqlx::query(statement::renew())
            .bind(request.incarnation.as_uuid())
            .bind(request.not_after.as_micros())
            .bind(names)
            .bind(terms)
            .bind(ttls)
            .bind(request.beat);
        let rows = self.rows(doing, query).await?;
        reading::renewed(&rows, request).map_err(|error| StoreError::new(doing, error))
    }

    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError> {
        let successor = request.successor.as_ref();
        let query = sqlx::query(statement::release())
            .bind(request.name.as_str())
            .bind(request.incarnation.as_uuid())
            .bind(request.term.number())
            .bind(successor.map(|(holder, _)| holder.as_str()))
            .bind(successor.map_or(0, |(_, reserve)| micros(*reserve)))
            .bind(request.not_after.as_micros())
            .bind(CHANNEL);
        let row = self.one("releasing a lease", query).await?;
        reading::done(&row).map_err(|error| StoreError::new("releasing a lease", error))
    }

    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError> {
        let query = sqlx::query(statement::ask())
            .bind(request.name.as_str())
            .bind(request.term.number())
            .bind(request.successor.as_ref().map(Holder::as_str))
            .bind(request.over.map(|priority| priority.0))
            .bind(request.not_after.as_micros())
            .bind(CHANNEL);
        let row = self.one("asking a holder to step down", query).await?;
        reading::done(&row).map_err(|error| StoreError::new("asking a holder to step down", error))
    }

    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError> {
        let doing = "forcing a lease free";
        let query = sqlx::query(statement::force())
            .bind(request.name.as_str())
            .bind(request.note.as_str())
            .bind(CHANNEL);
        let row = self.one(doing, query).await?;
        let read = || {
            let term: Option<i64> = row.try_get("term")?;
            Ok(At { at: statement::at(&row)?, answer: term.map(Term::new) })
        };
        read().map_err(|error: sqlx::Error| StoreError::new(doing, error))
    }

    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError> {
        let doing = "listing leases";
        let query = sqlx::query(statement::list())
            .bind(after.map_or("", Name::as_str))
            .bind(i64::from(limit));
        let rows = self.rows(doing, query).await?;
        reading::list(&rows).map_err(|error| StoreError::new(doing, error))
    }

    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        let doing = "reading the history of a lease";
        let query = sqlx::query(statement::history())
            .bind(name.as_str())
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit));
        let rows = self.rows(doing, query).await?;
        let entries = rows.iter().map(reading::entry).filter_map(Result::transpose);
        entries.collect::<Result<_, _>>().map_err(|error| StoreError::new(doing, error))
    }

    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError> {
        let doing = "pruning the history of leases";
        let mut connection = self.connection(doing).await?;
        let query = sqlx::query(statement::prune()).bind(micros(older_than));
        let done = query.execute(&mut connection.0).await;
        let done = done.map_err(|error| StoreError::new(doing, error))?;
        self.connection = Some(connection);
        Ok(done.rows_affected())
    }

    fn disconnect(&mut self) {
        self.connection = None;
    }

    fn listener(&self) -> Option<Box<dyn Listener>> {
        Some(Box::new(listener::PostgresListener::new(self.hosts.clone())))
    }

    fn beacon(&self) -> Option<Box<dyn Beacon>> {
        let (hosts, key) = (self.hosts.clone(), self.beacon.clone());
        Some(Box::new(beacon::PostgresBeacon::new(hosts, key)))
    }
}
