//! `holdfast backup` and `holdfast restore`: the database of an installation on SQLite, and that of `holdfast up`, as one file.

use std::{
    fs::File,
    io,
    os::unix::fs::{MetadataExt as _, fchown},
    path::{Path, PathBuf},
};

use holdfast_store::{BackupError, Error, Replacement};
use rustix::process::geteuid;
use serde_json::json;

use super::{restored, up};
use crate::{
    config::{Config, DatabaseUrl, Security},
    environment::Environment,
    failure::{Failure, chain},
    output::{Format, Output},
    wiring,
};

/// Copy the database into a file.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The file to make
    file: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Put a backup in the database's place.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    file: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Which database.
#[derive(Debug, clap::Args)]
struct PlaceArgs {
    /// The configuration that names the database; without it, the one of `holdfast up`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory of `holdfast up`
    #[arg(
        long,
        env = "HOLDFAST_DATA",
        value_name = "DIR",
        default_value = "holdfast-data",
        conflicts_with = "config"
    )]
    data: PathBuf,
    /// How the result is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
}

/// A database file, and what belongs to it.
struct Place {
    database: PathBuf,
    security: Security,
    /// None for the database of `up`, whose CA runs only while it does.
    config: Option<Config>,
}

impl Place {
    fn of(args: &PlaceArgs, environment: &Environment) -> Result<Self, Failure> {
        let Some(path) = &args.config else {
            let (url, security) =
                (up::config::database(&args.data), up::config::security(&args.data));
            return Self::at(url, security, None, "");
        };
        let config = Config::load(path, environment)?;
        let file = path.display().to_string();
        Self::at(config.database.url.clone(), config.security.clone(), Some(config), &file)
    }

    fn at(
        url: DatabaseUrl,
        security: Security,
        config: Option<Config>,
        file: &str,
    ) -> Result<Self, Failure> {
        match url {
            DatabaseUrl::Sqlite(database) => Ok(Self { database, security, config }),
            DatabaseUrl::Postgres(_) => Err(Failure::usage(format!(
                "{file} names a PostgreSQL database: back it up with pg_dump or your provider's tools, and after restoring it run `holdfast restored --config {file}`."
            ))),
        }
    }

    /// The file without which the backup opens nothing.
    fn key(&self) -> String {
        match &self.security.master_key_file {
            Some(path) => path.display().to_string(),
            None => "the master key".to_owned(),
        }
    }
}

/// Makes a backup.
pub(crate) async fn back_up(args: &BackupArgs, environment: &Environment) -> Result<(), Failure> {
    let place = Place::of(&args.place, environment)?;
    let made = holdfast_store::back_up(&place.database, &args.file, args.overwrite).await;
    let bytes = made.map_err(|error| refused(&error))?;
    let output = Output::new(args.place.output, environment);
    let (database, file) = (place.database.display(), args.file.display());
    if output.is_json() {
        let (database, file) = (database.to_string(), file.to_string());
        output.json(&json!({ "database": database, "file": file, "bytes": bytes }));
        return Ok(());
    }
    output.line(format!(
        "{} {file} is a copy of {database} ({bytes} bytes, checked).",
        output.style().good("✓")
    ));
    output.line(format!(
        "Keep {} as well, in another place: without it the backup opens nothing.",
        place.key()
    ));
    Ok(())
}

/// Puts a backup in the database's place.
pub(crate) async fn restore(args: &RestoreArgs, environment: &Environment) -> Result<(), Failure> {
    let place = Place::of(&args.place, environment)?;
    let _held = hold(&place, &args.place.data, &args.file)?;
    let replacement = Replacement::prepare(&args.file, &place.database).await;
    let replacement = replacement.map_err(|error| refused(&error))?;
    let copy = DatabaseUrl::Sqlite(replacement.copy().to_owned());
    let store = wiring::store::open_at(&copy, &place.security).await?;
    let restored = store.restored().await.map_err(wiring::store::failed)?;
    let account = restored::account(place.config.as_ref(), &store).await;
    wiring::store::close(&store).await;
    drop(store);
    let kept = replacement.put_in_place().await.map_err(|error| refused(&error))?;
    let output = Output::new(args.place.output, environment);
    let told = restored::Told { restored, account };
    if output.is_json() {
        let mut answer = told.json();
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("kept".to_owned(), json!(kept));
        }
        output.json(&answer);
        return Ok(());
    }
    let (file, database) = (args.file.display(), place.database.display());
    output.line(format!("{} {file} is now the database {database}.", output.style().good("✓")));
    if let Some(kept) = kept {
        output.line(format!(
            "  The database before it is kept as {}; remove it when nothing is missed.",
            kept.display()
        ));
    }
    told.say(output);
    Ok(())
}

/// Keeps `up` from starting meanwhile.
fn hold(place: &Place, data: &Path, backup: &Path) -> Result<Option<File>, Failure> {
    if place.config.is_some() {
        return Ok(None);
    }
    if !backup.exists() {
        return Err(refused(&BackupError::Missing(backup.display().to_string())));
    }
    let lock = data.join("up.lock");
    let is_new = !lock.exists();
    let held = up::hold::take(data)?;
    if is_new {
        give_to_owner(&held, data).map_err(|error| {
            let lock = lock.display();
            Failure::failed(format!(
                "{lock} cannot be given to the owner of its directory ({error}); nothing was changed."
            ))
        })?;
    }
    Ok(Some(held))
}

/// Where root restores, `up` may run as another user, who must be able to open the lock. Nobody but root can give a file away.
fn give_to_owner(lock: &File, data: &Path) -> io::Result<()> {
    let owner = std::fs::metadata(data)?;
    match fchown(lock, Some(owner.uid()), Some(owner.gid())) {
        Err(error) if geteuid().is_root() && lock.metadata()?.uid() != owner.uid() => Err(error),
        _ => Ok(()),
    }
}

fn refused(error: &BackupError) -> Failure {
    let text = chain(error);
    match error {
        BackupError::Missing(_) | BackupError::Empty(_) => {
            Failure::failed(format!("{text}; name another file, or see --config and --data."))
        }
        BackupError::Exists(_) => {
            Failure::failed(format!("{text}; name another file, or replace it with --overwrite."))
        }
        BackupError::Newer { .. } => {
            Failure::failed(format!("{text}; restore it with that release."))
        }
        BackupError::Damaged { .. } | BackupError::NotOurs(_) => {
            Failure::failed(format!("{text}; nothing was changed. Use another backup."))
        }
        BackupError::Store(Error::Misplaced { why, .. }) => {
            Failure::failed(format!("{text}; nothing was changed. {}", why.fix()))
        }
        BackupError::Itself(_) | BackupError::NotAFile(_) => {
            Failure::failed(format!("{text}; name another file."))
        }
        _ => Failure::failed(format!("{text}; nothing was changed.")),
    }
}
