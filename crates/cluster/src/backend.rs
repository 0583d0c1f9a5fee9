//! Where leases are kept, as configured, and how a write is fenced there.

use std::path::{Path, PathBuf};

use holdfast_lease::{
    Options, Store, Token,
    fence::Registered,
    store::{
        postgres::PostgresStore,
        redis::{RedisAddress, RedisStore},
        sqlite::SqliteStore,
    },
};
use holdfast_store::{Fence, LeaseHome, resolve};

use crate::{Error, Result};

/// Where leases are kept.
#[derive(Clone)]
pub enum Backend {
    /// In the database at this URL, which the store has migrated.
    Postgres(String),
    /// In the database file of the one process there is.
    Sqlite(PathBuf),
    /// In Redis, their terms registered in PostgreSQL.
    Redis {
        /// Which Redis.
        address: RedisAddress,
        /// Where terms are registered.
        database: String,
    },
}

/// A symbolic link is followed once, as the store does.
fn followed(file: &str) -> PathBuf {
    resolve(Path::new(file)).unwrap_or_else(|_| PathBuf::from(file))
}

impl Backend {
    /// By the URL of the database, and where Redis is, if that is to be used.
    ///
    /// # Errors
    /// When leases in Redis have no PostgreSQL to be registered in.
    pub fn new(database: &str, redis: Option<RedisAddress>) -> Result<Self> {
        let file = database.strip_prefix("sqlite:");
        let file = file.map(|file| followed(file.strip_prefix("//").unwrap_or(file)));
        match (redis, file) {
            (None, None) => Ok(Self::Postgres(database.to_owned())),
            (None, Some(file)) => Ok(Self::Sqlite(file)),
            (Some(address), None) => Ok(Self::Redis { address, database: database.to_owned() }),
            (Some(_), Some(_)) => Err(Error::NoPlaceToRegister),
        }
    }

    /// Is there only ever one process?
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// A way to the leases; connects at its first call.
    pub(crate) fn open(&self, options: &Options) -> Result<Box<dyn Store>> {
        let limit = options.request_timeout;
        Ok(match self {
            Self::Postgres(url) => Box::new(PostgresStore::new(url, limit)?),
            Self::Sqlite(file) => Box::new(SqliteStore::new(file, limit).existing()),
            Self::Redis { address, database } => {
                let redis = RedisStore::new(address.clone(), &options.key_prefix, limit)?;
                Box::new(Registered::new(redis, database, limit)?)
            }
        })
    }

    /// What a write under this token is fenced with.
    pub(crate) fn fence(&self, token: &Token, options: &Options) -> Fence {
        Fence {
            lease: token.name.as_str().to_owned(),
            term: token.term.number(),
            incarnation: token.incarnation.as_uuid(),
            limit: options.lease_duration / 3,
            kept: self.home(),
        }
    }

    /// Where the store finds a lease.
    pub(crate) fn home(&self) -> LeaseHome {
        match self {
            Self::Postgres(_) | Self::Sqlite(_) => LeaseHome::Here,
            Self::Redis { .. } => LeaseHome::Registered,
        }
    }

    /// Are leases kept in the same database as everything else?
    pub(crate) fn is_here(&self) -> bool {
        self.home() == LeaseHome::Here
    }
}
