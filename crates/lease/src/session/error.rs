//! Why there is no session, or no longer one.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// Why a host gave no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The server replays what another one writes.
    #[error("it is a standby (in recovery) and takes no writes")]
    Standby,
    /// The server takes writes, and not from this session.
    #[error("it is read-only (transaction_read_only is on)")]
    ReadOnly,
    /// Commits wait for a synchronous standby that does not confirm them.
    #[error("{0} sessions wait there for a synchronous standby to confirm their commits")]
    AwaitsStandby(i64),
    /// Statements of one session run in different server processes.
    #[error(
        "it is a connection pooler in transaction or statement mode, which loses settings, locks and notifications; \
         set its pool_mode to session, or connect to PostgreSQL directly"
    )]
    SharedSession,
    /// A setting that was made is not in force.
    #[error("its session does not keep the setting {name} = {wanted}, but has {found}")]
    SettingLost {
        /// Which one.
        name: &'static str,
        /// What was set.
        wanted: String,
        /// What is in force.
        found: String,
    },
    /// No session in time.
    #[error("no session within {0:?}")]
    Late(Duration),
    /// A pooler made the session wait for a server connection, and then gave up.
    #[error("the pooler before it has no server connection left ({0}); make its pool larger")]
    PoolerFull(String),
    /// What the driver or the server said.
    #[error("{}", flat(.0))]
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        let said = error.as_database_error().map(|said| said.message().to_owned());
        match said {
            Some(said) if said.contains("query_wait_timeout") => Self::PoolerFull(said),
            Some(said) if said.contains("no more connections allowed") => Self::PoolerFull(said),
            _ => Self::Failed(error),
        }
    }
}

/// An error with all its causes. The driver repeats some of them.
fn flat(error: &sqlx::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// No host gave a session that takes writes.
#[derive(Debug)]
pub struct Unreachable {
    pub(super) faults: Vec<(String, Fault)>,
}

impl Unreachable {
    /// Each host, as `HOST:PORT`, and why it was not used, in the order tried.
    pub fn faults(&self) -> impl Iterator<Item = (&str, &Fault)> {
        self.faults.iter().map(|(host, fault)| (host.as_str(), fault))
    }

    /// Is a server there that takes no writes, and none that does?
    pub fn takes_no_writes(&self) -> bool {
        self.faults().any(|(_, fault)| matches!(fault, Fault::Standby | Fault::ReadOnly))
    }

    /// Did a pooler in transaction or statement mode answer? Trying again does not help.
    pub fn is_shared_session(&self) -> bool {
        self.faults().any(|(_, fault)| matches!(fault, Fault::SharedSession))
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.faults.len() > 1 {
            f.write_str("no host takes writes: ")?;
        }
        for (at, (host, fault)) in self.faults.iter().enumerate() {
            let gap = if at == 0 { "" } else { "; " };
            write!(f, "{gap}{host}: {fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Unreachable {}

/// Is the session of no more use after this error?
///
/// What the server merely refuses leaves it as it was. It is over when the server ends it (severity FATAL; classes 57P and 08), when
/// the server takes no writes (25006), and after anything the server did not say: then its state is unknown.
pub fn ends_session(error: &sqlx::Error) -> bool {
    let Some(said) = error.as_database_error() else { return true };
    let severity = said.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::severity);
    if matches!(severity, Some(PgSeverity::Fatal | PgSeverity::Panic)) {
        return true;
    }
    said.code()
        .is_some_and(|code| code == "25006" || code.starts_with("57P") || code.starts_with("08"))
}
