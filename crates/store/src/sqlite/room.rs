//! Room on the database's disk. On a full disk a small row may still fit where a larger one did not, so a write alone does not
//! tell; the file system does.

use std::path::{Path, PathBuf};

use crate::{Error, Outage, Result};

/// With less than this a commit of ordinary size may not fit.
const LEAST: u64 = 512 << 10;

/// The disk of a database file.
pub(super) struct Room {
    directory: PathBuf,
    /// Root may also use what is kept back from others.
    privileged: bool,
}

impl Room {
    pub(super) fn of(file: &Path) -> Self {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self {
            directory: parent.unwrap_or(Path::new(".")).to_owned(),
            privileged: rustix::process::geteuid().is_root(),
        }
    }

    /// Fails when the disk is full. A disk that cannot be asked is not called full.
    pub(super) fn check(&self) -> Result<()> {
        let Ok(disk) = rustix::fs::statvfs(&self.directory) else { return Ok(()) };
        let blocks = if self.privileged { disk.f_bfree } else { disk.f_bavail };
        // Some file systems tell no size at all.
        if disk.f_blocks == 0 || blocks.saturating_mul(disk.f_frsize) >= LEAST {
            return Ok(());
        }
        Err(Error::Unusable { at: "look for room on the disk", outage: Outage::DiskFull })
    }
}
