//! Whether the database can be used, written included: asked by health, alerts, metrics and explanations, and kept in memory, because
//! what cannot be written cannot be told through the database. However many ask, it is written to at most every few seconds.

use std::time::Duration;

use holdfast_store::{Error, Outage};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::AppState;

/// Longest answer that still counts as one.
const LIMIT: Duration = Duration::from_secs(3);

/// How long a write that succeeded stands for the next, and one that failed.
const FRESH: Duration = Duration::from_secs(5);
const FRESH_TROUBLE: Duration = Duration::from_secs(1);

/// Why the database cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Told apart, where it can be.
    pub(crate) outage: Option<Outage>,
    /// In a sentence.
    pub(crate) detail: String,
}

/// The log is cut to 64 MB when it begins anew; several times that means that something keeps it from that.
const LARGE_LOG: u64 = 256 << 20;

/// What is to be said of a log of this size.
pub(crate) fn large_log(bytes: u64) -> Option<String> {
    (bytes > LARGE_LOG).then(|| {
        "the database's log has more than 256 MB: another process keeps reading an old state of the file".to_owned()
    })
}

/// What to do about it.
pub(crate) const LARGE_LOG_FIX: &str = "End what else has the database file open (`fuser` names it), such as sqlite3 or a copy under way; the log is cut by itself then.";

/// What the last write came to, and when.
#[derive(Default)]
pub(crate) struct WriteCheck(Mutex<Option<(Instant, Option<Trouble>)>>);

impl Trouble {
    /// The code of what could not be told apart.
    pub(crate) const OTHER: &str = "database-failed";

    /// Stable, for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.outage.map_or(Self::OTHER, Outage::code)
    }

    pub(crate) fn fix(&self) -> &'static str {
        self.outage.map_or("See the server's log for what the database said.", Outage::fix)
    }

    fn of(error: &Error) -> Self {
        let outage = error.outage();
        let detail = match (outage, error) {
            (None, _) => error.to_string(),
            // Which host, and why: the outage alone does not tell.
            (Some(outage), Error::NoSession { source, .. }) => format!("{outage}: {source}"),
            // Whose lock it is, and how to end it.
            (Some(outage), Error::Hindered { by, .. }) => format!("{outage}: {by}"),
            (Some(outage), Error::TakesNoWrites(fault)) => format!("{outage}: {fault}"),
            (Some(outage), _) => outage.to_string(),
        };
        Self { outage, detail }
    }

    fn silent() -> Self {
        let detail = format!("the database did not answer within {} s", LIMIT.as_secs());
        Self { outage: Some(Outage::Unreachable), detail }
    }
}

/// The versions of the schema: applied, and known to this release. Fails when the database cannot be read or written.
pub(crate) async fn look(state: &AppState) -> Result<(i64, i64), Trouble> {
    let schema = within_limit(state.store.schema()).await;
    // One that cannot be read need not be asked whether it can be written.
    let schema = match schema {
        Ok(schema) => schema,
        Err(trouble) => return Err(state.database.note(trouble).await),
    };
    match write_check(state).await {
        Some(trouble) => Err(trouble),
        None => Ok(schema),
    }
}

/// Why the database cannot be used, if it cannot.
pub(crate) async fn trouble(state: &AppState) -> Option<Trouble> {
    look(state).await.err()
}

async fn write_check(state: &AppState) -> Option<Trouble> {
    let mut last = state.database.0.lock().await;
    if let Some((at, known)) = last.as_ref() {
        let fresh = if known.is_some() { FRESH_TROUBLE } else { FRESH };
        if at.elapsed() < fresh {
            return known.clone();
        }
    }
    let found = within_limit(state.store.check_writes()).await.err();
    tell(last.as_ref().and_then(|(_, known)| known.as_ref()), found.as_ref());
    *last = Some((Instant::now(), found.clone()));
    found
}

impl WriteCheck {
    /// What was last found.
    pub(crate) async fn known(&self) -> Option<Trouble> {
        self.0.lock().await.as_ref().and_then(|(_, known)| known.clone())
    }

    async fn note(&self, found: Trouble) -> Trouble {
        let mut last = self.0.lock().await;
        tell(last.as_ref().and_then(|(_, known)| known.as_ref()), Some(&found));
        *last = Some((Instant::now(), Some(found.clone())));
        found
    }
}

async fn within_limit<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Trouble> {
    match timeout(LIMIT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Trouble::of(&error)),
        Err(_) => Err(Trouble::silent()),
    }
}

/// To the log, when it begins, changes or ends.
fn tell(before: Option<&Trouble>, now: Option<&Trouble>) {
    match now {
        _ if before == now => {}
        Some(now) => {
            tracing::error!(cause = now.code(), fix = now.fix(), "{}", now.detail);
        }
        None => tracing::info!("the database can be written again"),
    }
}
