//! A database file that is gone, or empty, beside the master key it was set up under: starting as if new would forget every domain without
//! a word. Set-up leaves a marker beside the key after its commit; a key that was provisioned, and a first start that was killed, have none.

use std::path::{Path, PathBuf};

use holdfast_gateway::{
    files::{self, Access},
    point::Point,
};

use super::store::failed;
use crate::{
    config::{Config, DatabaseUrl},
    failure::{Failure, chain},
};

/// Says that a database was set up under the master key beside it.
pub(crate) struct Marker<'a> {
    path: PathBuf,
    database: &'a Path,
}

impl<'a> Marker<'a> {
    /// Only a file can be lost without a word, and only a key file has a place beside it.
    pub(crate) fn of(config: &'a Config) -> Option<Self> {
        let DatabaseUrl::Sqlite(database) = &config.database.url else { return None };
        let key = config.security.master_key_file.as_ref()?;
        Some(Self { path: key.with_added_extension("in-use"), database })
    }

    /// Refuses an empty database where there was one that is not.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        match self.stands() && self.is_empty().await? {
            true => Err(Failure::failed(format!("{} {}", self.loss(), self.way_out()))),
            false => Ok(()),
        }
    }

    pub(crate) fn stands(&self) -> bool {
        self.path.exists()
    }

    pub(crate) fn loss(&self) -> String {
        let (database, marker) = (self.database.display(), self.path.display());
        format!(
            "The database {database} is missing or empty, and {marker} says that one was set up under this master key."
        )
    }

    pub(crate) fn way_out(&self) -> String {
        format!(
            "Restore a backup of it (docs/backup.md); to begin with an empty database instead, remove {}.",
            self.path.display()
        )
    }

    /// Is nothing sealed in it? One that is not there is not made.
    async fn is_empty(&self) -> Result<bool, Failure> {
        let length = std::fs::metadata(self.database).map_or(0, |metadata| metadata.len());
        if length == 0 {
            return Ok(true);
        }
        let url = format!("sqlite:{}", self.database.display());
        holdfast_store::migrate(&url).await.map_err(failed)?;
        let sealed_under = holdfast_store::master_key_id(&url).await.map_err(failed)?;
        Ok(sealed_under.is_none())
    }

    /// Stands from now on.
    pub(crate) fn set(&self) -> Result<(), Failure> {
        let text = format!(
            "The database {} was set up under the master key beside this file.\nWhile this file is here, Holdfast does not start on an empty database.\n",
            self.database.display()
        );
        match files::create_new(Point::FILE_OTHER, &self.path, text.as_bytes(), Access::Private) {
            Ok(()) | Err(files::Error::Exists { .. }) => Ok(()),
            Err(error) => Err(Failure::failed(format!(
                "{} cannot be written ({}); make its directory writable.",
                self.path.display(),
                chain(&error)
            ))),
        }
    }
}
