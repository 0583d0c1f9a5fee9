//! Sessions that could not be had in time. Requests that wait for one look like a slow database; this says what it is.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use holdfast_lease::session::{Fault, Unreachable};
use tokio::time::Instant;

/// For how long a shortage is told after it was last noticed.
const TOLD: Duration = Duration::from_secs(60);

/// The last shortage noticed.
#[derive(Default)]
pub(crate) struct Shortage(Mutex<Option<(Instant, String)>>);

impl Shortage {
    pub(crate) fn note(&self, why: &str) {
        tracing::warn!(why, "a session with the database is missing");
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), why.to_owned()));
    }

    /// Notes a failure, if what it says is that there are too few sessions.
    pub(crate) fn note_failure(&self, error: &Unreachable) {
        if error.faults().any(|(_, fault)| is_shortage(fault)) {
            self.note(&error.to_string());
        }
    }

    /// Why requests wait for sessions, if they did lately.
    pub(crate) fn lately(&self) -> Option<String> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(at, _)| at.elapsed() < TOLD).map(|(_, why)| why.clone())
    }
}

fn is_shortage(fault: &Fault) -> bool {
    match fault {
        Fault::Late(_) | Fault::PoolerFull(_) => true,
        Fault::Failed(error) => {
            let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
            code.is_some_and(|code| code == "53300")
        }
        _ => false,
    }
}
