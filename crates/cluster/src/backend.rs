//! Where leases are kept, as configured, and how a write is fenced there.

use std::path::PathBuf;

use holdfast_lease::{
    Options, Store, Token,
    fence::Registered,
    store::{
        postgres::PostgresStore,
        redis::{RedisAddress, RedisStore},
        sqlite::SqliteStore,
    },
};
use holdfast_store::{Fence, LeaseHome};

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

impl Backend {
    /// By the URLs of the database, and of Redis where that is to be used, with whether one that can lose acknowledged leases is good
    /// enough.
    ///
    /// # Errors
    /// When leases in Redis have no PostgreSQL to be registered in.
    pub fn new(database: &str, redis: Option<(&str, bool)>) -> Result<Self> {
        let redis = redis.map(|(url, weak_store)| RedisAddress {
            url: url.to_owned(),
            weak_store,
            root_certificate: None,
        });
        let file = database.strip_prefix("sqlite:");
        let file = file.map(|file| PathBuf::from(file.strip_prefix("//").unwrap_or(file)));
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
            Self::Sqlite(file) => Box::new(SqliteStore::new(file, limit)),
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
            kept: match self {
                Self::Postgres(_) | Self::Sqlite(_) => LeaseHome::Here,
                Self::Redis { .. } => LeaseHome::Registered,
            },
        }
    }
}
