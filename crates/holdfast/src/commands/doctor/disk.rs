//! Room on the disk, where this machine keeps anything.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::config::{Config, DatabaseUrl};

/// Less than this is worth a word, and a tenth of it is wrong.
const LITTLE: u64 = 1 << 30;

pub(super) fn look(config: &Config) -> Option<Finding> {
    let database = match &config.database.url {
        DatabaseUrl::Sqlite(path) => Some(path.clone()),
        DatabaseUrl::Postgres(_) => None,
    };
    let path = database.or_else(|| config.security.master_key_file.clone())?;
    room(&parent(&path))
}

/// How much room there is in a directory.
pub(super) fn room(directory: &Path) -> Option<Finding> {
    let shown = directory.display();
    let disk = match rustix::fs::statvfs(directory) {
        Ok(disk) => disk,
        Err(error) => {
            return Some(Finding::wrong(
                "disk",
                format!("{shown} cannot be looked at ({error})"),
                format!("Make the directory {shown}."),
            ));
        }
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let seen = format!("{} MB are free in {shown}", free >> 20);
    Some(match free {
        free if free < LITTLE / 10 => Finding::wrong(
            "disk",
            seen,
            "Make room: a database that cannot write stops everything.",
        ),
        free if free < LITTLE => Finding::doubtful("disk", seen, "Make room before it runs out."),
        _ => Finding::good("disk", seen),
    })
}

fn parent(path: &Path) -> PathBuf {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
        .to_owned()
}
