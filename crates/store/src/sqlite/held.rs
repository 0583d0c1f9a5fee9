//! A database file while this process has it: locked, its log open, and both where they will be looked for after a restart.

use std::{path::Path, sync::Arc};

use super::{holder, lock::FileLock, log::Log, options};
use crate::{Error, Hindrance, Outage, Result};

/// Held by everybody who reads or writes.
pub(super) struct Held {
    log: Log,
    // Given back last, when nothing writes any more.
    lock: FileLock,
}

impl Held {
    /// Takes a file for this process.
    pub(super) async fn take(file: &Path) -> Result<Arc<Self>> {
        let lock = FileLock::take(file)?;
        let log = Log::open(lock.path(), &options(lock.path())).await;
        let log = log.map_err(|source| Error::Database { at: "open the database", source })?;
        lock.note_log(log.identity());
        Ok(Arc::new(Self { log, lock }))
    }

    /// With every symbolic link followed.
    pub(super) fn path(&self) -> &Path {
        self.lock.path()
    }

    /// Fails when the file or its log is no longer where it would be looked for after a restart.
    pub(super) fn check(&self) -> Result<(), Outage> {
        self.lock.check().and_then(|()| self.log.check())
    }

    /// The same, and saves what a removed log holds before the error can end the process.
    pub(super) async fn check_and_save(&self, at: &'static str) -> Result<()> {
        let checked = self.check();
        if checked == Err(Outage::LogRemoved) {
            self.log.save(at).await?;
        }
        checked.map_err(|outage| Error::Unusable { at, outage })
    }

    /// What a lock of another process keeps from being done.
    pub(super) fn locked(&self, at: &'static str) -> Error {
        let files: Vec<_> =
            [self.log.index(), Some(self.lock.identity())].into_iter().flatten().collect();
        match holder::of_write_lock(&files) {
            Some(holder) => Error::Hindered { at, by: Hindrance::Process(holder), source: None },
            None => Error::Unusable { at, outage: Outage::Locked },
        }
    }

    /// Leaves the whole database in its one file.
    pub(super) async fn close(&self, at: &'static str) -> Result<()> {
        self.log.close().await.map_err(|source| Error::Database { at, source })
    }
}
