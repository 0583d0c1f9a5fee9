//! Opening a store: the URL says which database it is.

use std::{sync::Arc, time::Duration};

use holdfast_lease::session::Life;

use crate::{Error, MasterKey, MissingRights, Result, SharedStore, postgres, sqlite};

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Bring the schema up to date first.
    pub migrate: bool,
    /// At most so many connections for requests, beside the one that listens. SQLite has one that writes and these that read.
    pub connections: u32,
    /// A session with PostgreSQL ends after at most this long, so that none stays with a server that others have left.
    pub longest_life: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { migrate: true, connections: 16, longest_life: Life::LONGEST }
    }
}

enum Kind<'a> {
    Postgres,
    Sqlite(&'a str),
}

fn kind(url: &str) -> Result<Kind<'_>> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Kind::Postgres);
    }
    let file = url.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
    match file {
        Some(file) if !file.is_empty() && !file.starts_with(':') => Ok(Kind::Sqlite(file)),
        _ => Err(Error::BadUrl(url.to_owned())),
    }
}

/// Opens a store. Without a master key only a database that holds nothing sealed opens, and nothing can be sealed in it.
///
/// # Errors
/// Names the URL that is none, the key that is not the right one, or the process that has the file.
pub async fn open(
    url: &str,
    master: Option<MasterKey>,
    options: OpenOptions,
) -> Result<SharedStore> {
    if options.migrate {
        migrate(url).await?;
    }
    Ok(match kind(url)? {
        Kind::Postgres => {
            Arc::new(postgres::PostgresStore::open(url, master, &options).await?) as SharedStore
        }
        Kind::Sqlite(file) => Arc::new(sqlite::SqliteStore::open(file, master, &options).await?),
    })
}

/// Brings the schema up to date. Safe when many start at once; a newer schema than this release knows stays as it is.
///
/// # Errors
/// Says which step failed, and what the database said.
pub async fn migrate(url: &str) -> Result<()> {
    match kind(url)? {
        Kind::Postgres => postgres::migrate(&postgres::hosts(url)?.named("holdfast-migrate")).await,
        Kind::Sqlite(file) => sqlite::migrate(file).await,
    }
}

/// What the role of this URL lacks to change the schema; none where the database has no roles.
///
/// # Errors
/// When the database cannot be asked.
pub async fn missing_rights(url: &str) -> Result<Option<MissingRights>> {
    Ok(match kind(url)? {
        Kind::Postgres => Some(postgres::missing_rights(url).await?).filter(MissingRights::is_some),
        Kind::Sqlite(_) => None,
    })
}

/// Is this the URL of a database? Nothing is connected.
///
/// # Errors
/// Says why not, without what may be a password.
pub fn check_url(url: &str) -> Result<()> {
    match kind(url)? {
        Kind::Postgres => postgres::hosts(url).map(drop),
        Kind::Sqlite(_) => Ok(()),
    }
}

/// How many sessions with its database an open store keeps at most; none where it is a file.
///
/// # Errors
/// As [`check_url`].
pub fn sessions(url: &str, options: &OpenOptions) -> Result<u32> {
    Ok(match kind(url)? {
        Kind::Postgres => postgres::sessions(options.connections),
        Kind::Sqlite(_) => 0,
    })
}

/// The id of the master key that a migrated database was sealed under; none while it holds nothing sealed. Who finds none
/// may make a key.
///
/// # Errors
/// When the database cannot be asked.
pub async fn master_key_id(url: &str) -> Result<Option<String>> {
    match kind(url)? {
        Kind::Postgres => postgres::master_key_id(url).await,
        Kind::Sqlite(file) => sqlite::master_key_id(file).await,
    }
}
