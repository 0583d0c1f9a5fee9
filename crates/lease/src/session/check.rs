//! What is asked of a session when it is opened, and now and then.

use std::time::Duration;

use sqlx::postgres::{PgListener, PgRow};
use sqlx::{AssertSqlSafe, Executor, PgConnection, Postgres, Row as _};

use super::error::Fault;

/// The server takes writes from this session, or why not.
const WRITES: &str = "SELECT pg_is_in_recovery() AS standby, \
    current_setting('transaction_read_only')::bool AS read_only";

/// Either form of a session.
pub trait Session: Send {
    /// Runs a statement without parameters that gives one row. It is never prepared: a pooler could not keep it.
    fn ask(&mut self, statement: String)
    -> impl Future<Output = Result<PgRow, sqlx::Error>> + Send;
}

impl Session for PgConnection {
    async fn ask(&mut self, statement: String) -> Result<PgRow, sqlx::Error> {
        one(self, statement).await
    }
}

impl Session for PgListener {
    async fn ask(&mut self, statement: String) -> Result<PgRow, sqlx::Error> {
        one(self, statement).await
    }
}

async fn one<'c>(
    session: impl Executor<'c, Database = Postgres>,
    statement: String,
) -> Result<PgRow, sqlx::Error> {
    session.fetch_one(AssertSqlSafe(statement)).await
}

/// Does its server take writes from it now?
pub async fn ask_for_writes(session: &mut impl Session) -> Result<(), Fault> {
    let row = session.ask(WRITES.to_owned()).await?;
    match (row.try_get("standby")?, row.try_get("read_only")?) {
        (true, _) => Err(Fault::Standby),
        (false, true) => Err(Fault::ReadOnly),
        (false, false) => Ok(()),
    }
}

/// So many sessions of one name may wait for a standby that nobody waits for any more. More of them would take every place there is.
const ABANDONED: i64 = 16;

/// Refuses another session where too many of the same name have been given up on, while their server waits for a synchronous standby to
/// confirm their commit. No timeout of the server ends that wait, and nobody else may: it would show to all what a failover undoes.
pub(super) async fn refuse_where_many_wait(
    session: &mut impl Session,
    after: Duration,
) -> Result<(), Fault> {
    let count = format!(
        "SELECT count(*) AS waiting FROM pg_stat_activity WHERE wait_event = 'SyncRep' \
         AND datname = current_database() AND usename = current_user \
         AND application_name = current_setting('application_name') \
         AND query_start < clock_timestamp() - interval '{} milliseconds'",
        after.as_millis()
    );
    let waiting = match session.ask(count).await {
        Ok(row) => row.try_get("waiting")?,
        // A server that does not tell is as good as one without such sessions.
        Err(sqlx::Error::Database(refusal)) => {
            tracing::debug!(%refusal, "sessions that wait for a standby cannot be counted");
            0
        }
        Err(error) => return Err(error.into()),
    };
    if waiting < ABANDONED { Ok(()) } else { Err(Fault::AwaitsStandby(waiting)) }
}

/// A setting of a session: its name and value.
pub(super) type Setting = (&'static str, String);

/// Makes the settings, and reads them back by another statement.
pub(super) async fn settle(session: &mut impl Session, settings: &[Setting]) -> Result<(), Fault> {
    if settings.is_empty() {
        return Ok(());
    }
    let made = session.ask(list(settings, made_text)).await?;
    let found = session.ask(list(settings, found_text)).await?;
    for (at, (name, _)) in settings.iter().enumerate() {
        // The server writes a value in its own way, 2s for 2000ms: the same way each time.
        let (wanted, found): (String, String) = (made.try_get(at)?, found.try_get(at)?);
        if wanted != found {
            return Err(Fault::SettingLost { name, wanted, found });
        }
    }
    Ok(())
}

fn list(settings: &[Setting], text: fn(&Setting) -> String) -> String {
    let texts: Vec<String> = settings.iter().map(text).collect();
    format!("SELECT {}", texts.join(", "))
}

fn made_text((name, value): &Setting) -> String {
    format!("set_config('{name}', '{}', false)", value.replace('\'', "''"))
}

fn found_text((name, _): &Setting) -> String {
    format!("current_setting('{name}')")
}
