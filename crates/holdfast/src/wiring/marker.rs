//! A database file that is gone, or empty, beside the master key it was set up under: starting as if new would forget every domain without
//! a word. Set-up leaves a marker beside the key after its commit; a key that was provisioned, and a first start that was killed, have none.

use std::path::{Path, PathBuf};

use holdfast_gateway::{
    files::{self, Access},
    point::Point,
};
use holdfast_store::resolve;

use super::store::failed;
use crate::{
    config::{Config, DatabaseUrl},
    failure::{Failure, chain},
};

/// Says that a database was set up under a master key. It stands beside the key; where that directory cannot be written (a secret that
/// systemd, Docker or Kubernetes mounts), beside the database, where it still tells that the file alone is gone.
pub(crate) struct Marker<'a> {
    places: [PathBuf; 2],
    /// Where an earlier release put it: beside a symbolic link to the database.
    former: PathBuf,
    database: &'a Path,
}

impl<'a> Marker<'a> {
    /// Only a file can be lost without a word, and only a key file has a place beside it.
    pub(crate) fn of(config: &'a Config) -> Option<Self> {
        let DatabaseUrl::Sqlite(database) = &config.database.url else { return None };
        let key = config.security.master_key_file.as_ref()?;
        let beside = |file: &Path| file.with_added_extension("in-use");
        let places = [beside(key), beside(&resolve(database).unwrap_or_else(|_| database.clone()))];
        Some(Self { places, former: beside(database), database })
    }

    /// Refuses an empty database where there was one that is not.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        match self.loss() {
            Some(loss) if self.is_empty().await? => Err(Failure::failed(loss.to_string())),
            _ => Ok(()),
        }
    }

    fn standing(&self) -> Vec<&PathBuf> {
        let former = (!self.places.contains(&self.former)).then_some(&self.former);
        self.places.iter().chain(former).filter(|place| place.exists()).collect()
    }

    /// What an empty database means, where one was set up.
    pub(crate) fn loss(&self) -> Option<Loss> {
        let standing = self.standing();
        let markers = standing.iter().map(|place| place.display().to_string()).collect::<Vec<_>>();
        let markers = Some(markers.join(" and ")).filter(|markers| !markers.is_empty())?;
        let database = self.database.display();
        Some(Loss {
            what: format!(
                "The database {database} is missing or empty, and {markers} says that one was set up under this master key."
            ),
            way_out: format!(
                "Restore a backup of it (docs/backup.md); to begin with an empty database instead, remove {markers}."
            ),
        })
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

    /// Stands from now on. A server that works is not stopped because it cannot be written.
    pub(crate) fn set(&self) {
        if !self.standing().is_empty() {
            return;
        }
        let text = format!(
            "The database {} was set up under its master key.\nWhile this file is here, Holdfast does not start on an empty database.\n",
            self.database.display()
        );
        let write = |place: &PathBuf| {
            files::create_new(Point::FILE_OTHER, place, text.as_bytes(), Access::Private)
        };
        let [beside_key, beside_database] = &self.places;
        match write(beside_key).or_else(|_| write(beside_database)) {
            Ok(()) | Err(files::Error::Exists { .. }) => {}
            Err(error) => tracing::warn!(
                error = chain(&error),
                "that the database is set up cannot be noted: an empty one in its place would be taken for new"
            ),
        }
    }
}

/// A database that was set up and is not there.
pub(crate) struct Loss {
    pub(crate) what: String,
    pub(crate) way_out: String,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.what, self.way_out)
    }
}
