//! What keeps a database from being used, told apart so that people know what to do. Derived from what the database said;
//! whoever shows it adds which database it is.

use std::{
    fmt,
    io::ErrorKind,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdfast_lease::session::{Fault, Unreachable};
use sqlx::sqlite::SqliteError;
use tokio::time::Instant;

use crate::{Error, Result};

/// Why a database cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outage {
    /// Its disk has no room left.
    DiskFull,
    /// Its disk gives errors.
    DiskFailed,
    /// Another process holds its lock.
    Locked,
    /// Its commits wait for a synchronous standby that does not confirm them.
    AwaitsStandby,
    /// Its contents contradict themselves.
    Corrupt,
    /// The file holds something else.
    NotADatabase,
    /// It is not there, or this process may not open it.
    CannotOpen,
    /// It can be read and not written.
    ReadOnly,
    /// Its file was deleted, renamed or replaced while it was in use.
    Replaced,
    /// Its log was deleted or replaced while it was in use.
    LogRemoved,
    /// A pooler before it gives each transaction to another session.
    SharedSession,
    /// It lets nobody else in.
    TooManyConnections,
    /// It does not answer.
    Unreachable,
}

impl Outage {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::DiskFull,
        Self::DiskFailed,
        Self::Locked,
        Self::AwaitsStandby,
        Self::Corrupt,
        Self::NotADatabase,
        Self::CannotOpen,
        Self::ReadOnly,
        Self::Replaced,
        Self::LogRemoved,
        Self::SharedSession,
        Self::TooManyConnections,
        Self::Unreachable,
    ];

    /// What the database said, as an outage, if it is one.
    pub(crate) fn of(error: &sqlx::Error) -> Option<Self> {
        of_sqlx(error)
    }

    /// Stable, for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::DiskFull => "database-disk-full",
            Self::DiskFailed => "database-disk-failed",
            Self::Locked => "database-locked",
            Self::AwaitsStandby => "database-standby",
            Self::Corrupt => "database-corrupt",
            Self::NotADatabase => "database-invalid",
            Self::CannotOpen => "database-cannot-open",
            Self::ReadOnly => "database-read-only",
            Self::Replaced => "database-replaced",
            Self::LogRemoved => "database-log-removed",
            Self::SharedSession => "database-pooler-mode",
            Self::TooManyConnections => "database-connections",
            Self::Unreachable => "database-unreachable",
        }
    }

    /// What happened, as the rest of a sentence that begins with the database.
    #[must_use]
    pub const fn predicate(self) -> &'static str {
        match self {
            Self::DiskFull => "cannot write: its disk is full",
            Self::DiskFailed => "cannot write: its disk gives errors",
            Self::Locked => "cannot write: another process or a long transaction holds its lock",
            Self::AwaitsStandby => {
                "cannot commit: it waits for a synchronous standby that does not confirm"
            }
            Self::Corrupt => "is corrupt",
            Self::NotADatabase => "is no SQLite database",
            Self::CannotOpen => "cannot be opened",
            Self::ReadOnly => "can be read only",
            Self::Replaced => "was deleted, renamed or replaced while it was in use",
            Self::LogRemoved => {
                "lost its log: the file ending in -wal or -shm was deleted, replaced or cut off while it was in use"
            }
            Self::SharedSession => "is behind a pooler in transaction or statement mode",
            Self::TooManyConnections => "takes no more connections",
            Self::Unreachable => "does not answer",
        }
    }

    /// What to do, in a sentence.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        match self {
            Self::DiskFull => "Make room on the disk of the database; work goes on by itself then.",
            Self::DiskFailed => {
                "Look at the kernel's log and at the disk; move the database to a disk that works."
            }
            Self::Locked => {
                "End whatever holds it: what else has the file open, such as sqlite3 or a backup, or on PostgreSQL the session that is named; work goes on by itself then."
            }
            Self::AwaitsStandby => {
                "Bring a standby of synchronous_standby_names back, or take the lost one out of that setting and reload; work goes on by itself then."
            }
            Self::Corrupt => {
                "Stop Holdfast, keep a copy of the database, and restore a backup; see docs/backup.md."
            }
            Self::NotADatabase => {
                "See that database.url names the right file; if it does, restore a backup."
            }
            Self::CannotOpen => {
                "See that database.url is right, and that the user of Holdfast may read and write the file and its directory."
            }
            Self::ReadOnly => {
                "Name every host that may take writes in database.url, or an address that leads to the one that does; for a file, make the file and its directory writable."
            }
            Self::Replaced => {
                "Start Holdfast again when the right database is in its place; what was in memory was not written to another one."
            }
            Self::LogRemoved => {
                "End whoever else reads the database, and start Holdfast again; its last messages say whether the log was put back. Only SQLite may remove these files."
            }
            Self::SharedSession => {
                "Set pool_mode = session for it in PgBouncer, or let database.url name PostgreSQL itself."
            }
            Self::TooManyConnections => {
                "Raise max_connections of the database, or the size of the pool before it, or lower how many others take."
            }
            Self::Unreachable => "See that the database runs, and that database.url is right.",
        }
    }

    /// Does work go on by itself once the cause is gone? A damaged database stays damaged.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        !matches!(self, Self::Corrupt | Self::NotADatabase | Self::SharedSession)
            && !self.ends_process()
    }

    /// Would going on lose what is written? Then a process must end, and not in order: that writes, too.
    #[must_use]
    pub const fn ends_process(self) -> bool {
        matches!(self, Self::Replaced | Self::LogRemoved)
    }
}

/// For how long trouble with a disk is told after it was last met: what is written next may find room where this found none.
const TOLD: Duration = Duration::from_secs(10);

/// What any call met, and the next one may not. Damage stays until the process ends, or until another server answers: later
/// calls may find pages that are whole.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    lasting: Mutex<Option<Outage>>,
    of_disk: Mutex<Option<(Instant, Outage)>>,
}

impl Damage {
    /// Looks at what the database said.
    pub(crate) fn note(&self, error: &sqlx::Error) {
        match of_sqlx(error) {
            Some(outage @ (Outage::DiskFull | Outage::DiskFailed)) => {
                *lock(&self.of_disk) = Some((Instant::now(), outage));
            }
            Some(outage) if !outage.is_transient() => {
                lock(&self.lasting).get_or_insert(outage);
            }
            _ => {}
        }
    }

    /// Fails once damage was seen.
    pub(crate) fn check(&self) -> Result<()> {
        lock(&self.lasting).map_or(Ok(()), met_before)
    }

    /// Fails for a while after a disk was full, or failed.
    pub(crate) fn check_disk(&self) -> Result<()> {
        let last = lock(&self.of_disk).filter(|(at, _)| at.elapsed() < TOLD);
        last.map_or(Ok(()), |(_, outage)| met_before(outage))
    }

    /// What was damaged is not asked any more.
    pub(crate) fn forget(&self) {
        *lock(&self.lasting) = None;
        *lock(&self.of_disk) = None;
    }
}

fn met_before(outage: Outage) -> Result<()> {
    Err(Error::Unusable { at: "look back at earlier errors", outage })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database {}", self.predicate())
    }
}

impl Error {
    /// What keeps the database from being used, if that is what this error says.
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        match self {
            Self::Unusable { outage, .. } => Some(*outage),
            Self::Hindered { by, .. } => Some(by.outage()),
            Self::Database { source, .. } | Self::Migration { source, .. } => of_sqlx(source),
            Self::File { source, .. } => Some(of_io(source)),
            Self::NoSession { source, .. } => Some(of_hosts(source)),
            Self::TakesNoWrites(_) => Some(Outage::ReadOnly),
            Self::SharedSession(_) => Some(Outage::SharedSession),
            _ => None,
        }
    }
}

/// Of hosts none of which gave a session. A host that is there and takes no writes says more than one that is gone.
fn of_hosts(error: &Unreachable) -> Outage {
    let said = |fault: &Fault| match fault {
        Fault::PoolerFull(_) => Some(Outage::TooManyConnections),
        Fault::AwaitsStandby(_) => Some(Outage::AwaitsStandby),
        Fault::Failed(error) => of_sqlx(error),
        _ => None,
    };
    match error.takes_no_writes() {
        true => Outage::ReadOnly,
        false => error.faults().find_map(|(_, fault)| said(fault)).unwrap_or(Outage::Unreachable),
    }
}

fn of_sqlx(error: &sqlx::Error) -> Option<Outage> {
    match error {
        sqlx::Error::Database(said) => {
            let code = said.code()?;
            match said.try_downcast_ref::<SqliteError>() {
                Some(_) => of_sqlite(code.parse().ok()?),
                None => of_postgres(&code),
            }
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Some(Outage::Unreachable),
        _ => None,
    }
}

/// SQLite's extended result codes; the lowest byte is the kind.
fn of_sqlite(code: u32) -> Option<Outage> {
    /// The index of the log could not be made larger.
    const IOERR_SHMSIZE: u32 = 4874;
    const READONLY_DBMOVED: u32 = 1032;
    match (code, code & 0xff) {
        (IOERR_SHMSIZE, _) | (_, 13) => Some(Outage::DiskFull),
        (READONLY_DBMOVED, _) => Some(Outage::Replaced),
        (_, 5 | 6) => Some(Outage::Locked),
        (_, 8) => Some(Outage::ReadOnly),
        (_, 10) => Some(Outage::DiskFailed),
        (_, 11) => Some(Outage::Corrupt),
        (_, 26) => Some(Outage::NotADatabase),
        (_, 3 | 14 | 23) => Some(Outage::CannotOpen),
        _ => None,
    }
}

/// PostgreSQL's SQLSTATE.
fn of_postgres(code: &str) -> Option<Outage> {
    match code {
        "53100" => Some(Outage::DiskFull),
        "53300" => Some(Outage::TooManyConnections),
        "58030" => Some(Outage::DiskFailed),
        "25006" => Some(Outage::ReadOnly),
        "55P03" => Some(Outage::Locked),
        "3D000" => Some(Outage::CannotOpen),
        code if code.starts_with("XX00") && code != "XX000" => Some(Outage::Corrupt),
        code if code.starts_with("28") => Some(Outage::CannotOpen),
        code if code.starts_with("57P") || code.starts_with("08") => Some(Outage::Unreachable),
        _ => None,
    }
}

/// Of a file beside the database.
fn of_io(error: &std::io::Error) -> Outage {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Outage::DiskFull
        }
        ErrorKind::ReadOnlyFilesystem => Outage::ReadOnly,
        ErrorKind::PermissionDenied
        | ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory => Outage::CannotOpen,
        _ => Outage::DiskFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sqlite_says_is_told_apart() {
        let known = [
            (13, Outage::DiskFull),
            (4874, Outage::DiskFull),
            (778, Outage::DiskFailed),
            (5, Outage::Locked),
            (261, Outage::Locked),
            (11, Outage::Corrupt),
            (26, Outage::NotADatabase),
            (14, Outage::CannotOpen),
            (1032, Outage::Replaced),
            (8, Outage::ReadOnly),
        ];
        for (code, outage) in known {
            assert_eq!(of_sqlite(code), Some(outage), "{code}");
        }
        // A constraint, a syntax error: the statement's fault, not the database's state.
        assert_eq!((of_sqlite(2067), of_sqlite(1)), (None, None));
    }

    #[test]
    fn what_postgresql_says_is_told_apart() {
        let known = [
            ("53100", Outage::DiskFull),
            ("53300", Outage::TooManyConnections),
            ("25006", Outage::ReadOnly),
            ("28P01", Outage::CannotOpen),
            ("57P01", Outage::Unreachable),
            ("XX001", Outage::Corrupt),
        ];
        for (code, outage) in known {
            assert_eq!(of_postgres(code), Some(outage), "{code}");
        }
        assert_eq!((of_postgres("23505"), of_postgres("XX000")), (None, None));
    }

    #[test]
    fn every_outage_has_a_code_of_its_own_and_a_whole_sentence() {
        let mut codes: Vec<_> = Outage::ALL.iter().map(|outage| outage.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Outage::ALL.len());
        assert!(Outage::ALL.iter().all(|outage| outage.fix().ends_with('.')));
    }
}
