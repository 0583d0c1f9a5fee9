//! The session all callers share, made by one of them at a time.
//!
//! Whoever waited while another's attempt failed is told that failure: a CA that is away is asked once, not once for
//! each domain in work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::Error;
use crate::session::Session;

#[derive(Default)]
pub(crate) struct Sessions {
    current: RwLock<Option<Arc<Session>>>,
    failures: AtomicU64,
    last_failure: Mutex<Option<Arc<Error>>>,
    /// When the directory was last read because a request may have gone to a place that is gone.
    searched_at: RwLock<Option<Instant>>,
}

/// How often at most the directory is read because of that: an outage of the CA looks alike.
const SEARCH_EVERY: Duration = Duration::from_secs(10);

/// The right to make the session.
pub(crate) struct Turn<'a> {
    sessions: &'a Sessions,
    last_failure: MutexGuard<'a, Option<Arc<Error>>>,
    waited_through: Option<Arc<Error>>,
}

impl Sessions {
    pub(crate) fn current(&self) -> Option<Arc<Session>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes no further use of a session, if it is still the one in use.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
        }
    }

    /// Waits until nobody else makes one.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        let seen = self.failures.load(Ordering::Acquire);
        let last_failure = self.last_failure.lock().await;
        let failed_meanwhile = self.failures.load(Ordering::Acquire) > seen;
        let waited_through = last_failure.clone().filter(|_| failed_meanwhile);
        Turn { sessions: self, last_failure, waited_through }
    }

    /// May the directory be read out of turn? Notes that it is.
    pub(crate) fn may_search(&self) -> bool {
        let mut searched = self.searched_at.write().unwrap_or_else(PoisonError::into_inner);
        let may = searched.is_none_or(|at| at.elapsed() >= SEARCH_EVERY);
        if may {
            *searched = Some(Instant::now());
        }
        may
    }

    fn set(&self, session: Option<Arc<Session>>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = session;
    }
}

impl Turn<'_> {
    /// What another attempt failed with while this one waited.
    pub(crate) fn failed_meanwhile(&self) -> Option<Error> {
        self.waited_through.clone().map(Error::Shared)
    }

    /// The session is made, or not; all who wait get to know.
    pub(crate) fn end(mut self, made: Result<Session, Error>) -> Result<Arc<Session>, Error> {
        match made {
            Ok(session) => {
                let session = Arc::new(session);
                self.sessions.set(Some(session.clone()));
                Ok(session)
            }
            Err(error) => {
                let error = Arc::new(error);
                self.sessions.set(None);
                *self.last_failure = Some(error.clone());
                self.sessions.failures.fetch_add(1, Ordering::Release);
                Err(Error::Shared(error))
            }
        }
    }
}
