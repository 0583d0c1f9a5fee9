//! The hosts of a URL, and a session with the one that takes writes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

use super::check::{self, Setting, ask_for_writes};
use super::error::{Fault, Unreachable};
use super::life::Life;
use super::pooler::refuse_shared_sessions;
use super::url::{self, Host};
use crate::error::Error;

/// Longest wait for the only host there is.
const ALONE: Duration = Duration::from_secs(10);
/// Longest wait for one of several: a host that is gone must not cost every session the time of all.
const OF_SEVERAL: Duration = Duration::from_secs(3);

/// The hosts of a database, of which one at a time takes writes. Clones share what is known of them.
#[derive(Clone, Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    settings: Vec<Setting>,
    given_up_after: Option<Duration>,
    known: Arc<Known>,
}

#[derive(Debug)]
struct Known {
    /// Where to begin: the host that took writes last.
    first: AtomicUsize,
    /// Which hosts were found to give each session a server process of its own.
    unshared: Vec<Arc<Unshared>>,
}

/// Whether a place was found to give each session a server process of its own. Known for no longer than a session lives: a pooler
/// can be reloaded into another mode at any time.
#[derive(Debug, Default)]
struct Unshared(Mutex<Option<Life>>);

impl Unshared {
    fn found(&self) -> MutexGuard<'_, Option<Life>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_known(&self) -> bool {
        self.found().is_some_and(|life| !life.is_over())
    }

    fn keep(&self, compared: bool) {
        *self.found() = compared.then(|| Life::begin(Life::LONGEST));
    }
}

/// What was found of each place by this process. Finding it takes a dozen round trips, which not every session may have the time for.
static FOUND: LazyLock<Mutex<HashMap<String, Arc<Unshared>>>> = LazyLock::new(Mutex::default);

fn found(host: &Host) -> Arc<Unshared> {
    let (user, database) = (host.options.get_username(), host.options.get_database());
    let place = format!("{} {user} {}", host.name, database.unwrap_or(user));
    FOUND.lock().unwrap_or_else(PoisonError::into_inner).entry(place).or_default().clone()
}

/// An attempt that is given up half-way counts against the host, so that the next one begins elsewhere.
struct Attempt<'k> {
    known: &'k Known,
    otherwise: Option<usize>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(next) = self.otherwise {
            self.known.first.store(next, Ordering::Relaxed);
        }
    }
}

impl Hosts {
    /// The hosts of `postgres://USER@H1:5432,H2:5433/NAME`, one or several. Nothing is connected yet.
    pub fn parse(url: &str) -> Result<Self, Error> {
        Ok(Self::of(url::hosts(url)?))
    }

    fn of(hosts: Vec<Host>) -> Self {
        let unshared = hosts.iter().map(found).collect();
        let known = Known { first: AtomicUsize::new(0), unshared };
        Self { hosts, settings: Vec::new(), given_up_after: None, known: Arc::new(known) }
    }

    /// Changes how each of them is connected to.
    #[must_use]
    pub fn with_options(mut self, change: impl Fn(PgConnectOptions) -> PgConnectOptions) -> Self {
        for host in &mut self.hosts {
            host.options = change(host.options.clone());
        }
        self
    }

    /// The name under which sessions are seen in `pg_stat_activity`.
    #[must_use]
    pub fn named(self, application: &str) -> Self {
        self.with_options(|options| options.application_name(application))
    }

    /// Sessions of this name, of whichever process, have given up on a statement after this long. Where their server still waits for a
    /// synchronous standby to confirm it, they stay, and would pile up: where there are many of them, no more are opened.
    #[must_use]
    pub fn given_up_after(mut self, limit: Duration) -> Self {
        self.given_up_after = Some(limit);
        self
    }

    /// The same hosts, for attempts that may be given up at any moment: they do not decide where others begin.
    #[must_use]
    pub fn aside(&self) -> Self {
        let first = AtomicUsize::new(self.known.first.load(Ordering::Relaxed));
        let known = Known { first, unshared: self.known.unshared.clone() };
        Self { known: Arc::new(known), ..self.clone() }
    }

    /// Makes these settings in each session, over those made already.
    #[must_use]
    pub fn with_settings<V: Into<String>>(
        mut self,
        settings: impl IntoIterator<Item = (&'static str, V)>,
    ) -> Self {
        self.settings.extend(settings.into_iter().map(|(name, value)| (name, value.into())));
        self
    }

    /// A session with the host that takes writes: the one that did last, or else the next one that does.
    pub async fn connect(&self) -> Result<PgConnection, Unreachable> {
        self.open().await.map(|(_, session)| session)
    }

    /// A session that notices by itself when it ends, and can listen.
    pub async fn listener(&self) -> Result<PgListener, Unreachable> {
        let (host, session) = self.open().await?;
        // The driver takes a listener from a pool alone, which would hide why a host was not reached. So the host is found first.
        session.close().await.ok();
        let failed = |fault| Unreachable { faults: vec![(host.name.clone(), fault)] };
        match timeout(self.limit(), self.listen(host)).await {
            Ok(listener) => listener.map_err(failed),
            Err(_) => Err(failed(Fault::Late(self.limit()))),
        }
    }

    async fn listen(&self, host: &Host) -> Result<PgListener, Fault> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(host.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.ignore_pool_close_event(true);
        listener.eager_reconnect(false);
        check::settle(&mut listener, &self.settings).await?;
        ask_for_writes(&mut listener).await?;
        Ok(listener)
    }

    fn limit(&self) -> Duration {
        if self.hosts.len() > 1 { OF_SEVERAL } else { ALONE }
    }

    async fn open(&self) -> Result<(&Host, PgConnection), Unreachable> {
        let count = self.hosts.len();
        let first = self.known.first.load(Ordering::Relaxed);
        let mut faults = Vec::new();
        for at in (first..first + count).map(|at| at % count) {
            let (Some(host), Some(unshared)) = (self.hosts.get(at), self.known.unshared.get(at))
            else {
                continue;
            };
            let mut attempt = Attempt { known: &self.known, otherwise: Some((at + 1) % count) };
            match timeout(self.limit(), self.open_at(host, unshared)).await {
                Ok(Ok(session)) => {
                    attempt.otherwise = Some(at);
                    return Ok((host, session));
                }
                Ok(Err(fault)) => faults.push((host.name.clone(), fault)),
                Err(_) => faults.push((host.name.clone(), Fault::Late(self.limit()))),
            }
            // Another server may stand there when it answers again.
            unshared.keep(false);
        }
        Err(Unreachable { faults })
    }

    async fn open_at(&self, host: &Host, unshared: &Unshared) -> Result<PgConnection, Fault> {
        let mut session = PgConnection::connect_with(&host.options).await?;
        ask_for_writes(&mut session).await?;
        if let Some(limit) = self.given_up_after {
            check::refuse_where_many_wait(&mut session, limit).await?;
        }
        if !unshared.is_known() {
            unshared.keep(refuse_shared_sessions(&mut session, &host.options).await?);
        }
        check::settle(&mut session, &self.settings).await?;
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_place_is_compared_anew_when_its_sessions_have_ended() {
        let place = Unshared::default();
        assert!(!place.is_known());
        place.keep(true);
        tokio::time::advance(Life::LONGEST / 2).await;
        assert!(place.is_known());
        tokio::time::advance(Life::LONGEST / 2).await;
        assert!(!place.is_known());
        place.keep(true);
        place.keep(false);
        assert!(!place.is_known());
    }
}
