//! Work under a lease: begun when it is held, stopped before it can end, and told of when it has really stopped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::driver::{Begin, Command};
use super::work::Progress;
use super::{Leadership, Standing, Work, lock};
use crate::clock::Moment;
use crate::error::Error;
use crate::event::Loss;
use crate::identity::Term;
use crate::row::{Owner, Row};

/// Work that was let begin: the signs by which it is stopped, and what tells its end.
struct Begun {
    work: Work,
    by: watch::Receiver<Option<Moment>>,
    ending: Ending,
}

impl Leadership {
    /// Does this work whenever the lease is held, for ever: started when elected, cancelled when lost, and dropped if it has not
    /// ended when the lease does. Work that ends or panics by itself lets go of the lease, so that another process has a
    /// go; this one contends again. Returns only when the elector does.
    pub async fn run_while_leader<F, Fut>(&self, mut work: F) -> Error
    where
        F: FnMut(Work) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let mut standing = self.watch();
        loop {
            let term = match self.elected_by(&mut standing).await {
                Ok(term) => term,
                Err(ended) => return ended,
            };
            let Some(Begun { work: context, by, ending }) = self.begin(term).await else {
                // The term is over, or other work of this process runs under it: whatever comes next will be news.
                match self.changed(&mut standing).await {
                    Ok(()) => continue,
                    Err(ended) => return ended,
                }
            };
            match catch_unwind(AssertUnwindSafe(|| work(context))) {
                Ok(future) => self.supervise(Task::spawn(future, ending), by).await,
                Err(_) => error!(lease = %self.0.name, %term, "work under a lease panicked"),
            }
        }
    }

    async fn supervise(&self, mut task: Task, by: watch::Receiver<Option<Moment>>) {
        let Some(handle) = &mut task.handle else { return };
        match self.until(by, &mut *handle).await {
            Some(Ok(())) => {}
            Some(Err(panicked)) => {
                error!(lease = %self.0.name, %panicked, "work under a lease panicked");
            }
            None => {
                handle.abort();
                // Code that never yields goes on until it does: until then this process does not contend.
                handle.await.ok();
            }
        }
        task.handle = None;
    }

    pub(super) async fn once<T, F, Fut>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(Work) -> Fut,
        Fut: Future<Output = T>,
    {
        let term = self.elected_or_refused().await?;
        // Declared first, so that the work is dropped before its end is told.
        let Begun { work: context, by, ending: _ending } =
            self.begin(term).await.ok_or_else(|| self.busy(term))?;
        let mut working = pin!(work(context));
        let lost = || Error::LeaseLost { name: self.0.name.clone(), term, why: Loss::Deadline };
        self.until(by, &mut working).await.ok_or_else(lost)
    }

    async fn elected_or_refused(&self) -> Result<Term, Error> {
        let mut standing = self.watch();
        loop {
            match &*standing.borrow_and_update() {
                Standing::Leading(term) if self.is_leader() => return Ok(*term),
                Standing::Following(row) => {
                    if let Some(refusal) = self.refusal(row) {
                        return Err(refusal);
                    }
                }
                _ => {}
            }
            self.changed(&mut standing).await?;
        }
    }

    /// Why this row is not for this process; none if it may be.
    fn refusal(&self, row: &Row) -> Option<Error> {
        let (name, until) = (self.0.name.clone(), row.expires_at);
        match (&row.owner, &row.successor) {
            (Some(Owner { incarnation, .. }), _) if *incarnation != self.0.shared.incarnation => {
                self.held(row)
            }
            (None, Some(successor)) if *successor != self.0.shared.holder => {
                Some(Error::Reserved { name, successor: successor.clone(), until })
            }
            _ => None,
        }
    }

    fn held(&self, row: &Row) -> Option<Error> {
        let Owner { holder, .. } = row.owner.as_ref()?;
        let (name, holder, term) = (self.0.name.clone(), holder.clone(), row.term);
        Some(Error::Held { name, holder, term, since: row.since, until: row.expires_at })
    }

    /// Why work may not begin though the lease was held: other work of this process is under way, or it was lost just now.
    fn busy(&self, term: Term) -> Error {
        let lost = || Error::LeaseLost { name: self.0.name.clone(), term, why: Loss::Deadline };
        let own = lock(&self.0.local.granted).clone().filter(|row| row.term == term);
        let held = own.filter(|_| self.term() == Some(term)).and_then(|row| self.held(&row));
        held.unwrap_or_else(lost)
    }

    /// Asks the driver to let work begin under this term; none if it is over already, or other work is under way.
    async fn begin(&self, term: Term) -> Option<Begun> {
        let (cancel, (by, until)) = (CancellationToken::new(), watch::channel(None));
        let (reply, may) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        let name = self.0.name.clone();
        // Made before it is asked for: whoever is dropped while waiting for the answer tells its end all the same.
        let ending = Ending { of: self.clone(), term, progress: progress.clone() };
        let of = progress.clone();
        let begin = Begin { name, term, of, cancel: cancel.clone(), by, reply };
        self.0.commands.send(Command::Begin(begin)).ok()?;
        may.await.ok().filter(|may| *may)?;
        *lock(&self.0.local.progress) = Some(progress.clone());
        let clock = self.0.shared.clock.clone();
        let work = Work { token: self.token_of(term), cancelled: cancel, progress, clock };
        Some(Begun { work, by: until, ending })
    }

    /// Runs work until it ends; none if its time was up before.
    async fn until<W: Future + Unpin>(
        &self,
        mut by: watch::Receiver<Option<Moment>>,
        work: &mut W,
    ) -> Option<W::Output> {
        let clock = &self.0.shared.clock;
        let time_up = async {
            let by = by.wait_for(Option::is_some).await.map(|by| *by);
            if let Ok(Some(by)) = by {
                clock.sleep_until(by).await;
            }
        };
        let outcome = tokio::select! {
            output = work => Some(output),
            () = time_up => None,
        };
        if outcome.is_none() {
            warn!(lease = %self.0.name, "work did not stop in time and is dropped");
        }
        outcome
    }
}

/// Tells the end of work, also when whoever ran it is dropped. If the lease is still held, it is let go of, so that it can
/// be won anew.
struct Ending {
    of: Leadership,
    term: Term,
    /// Which work.
    progress: Arc<Progress>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut shown = lock(&self.of.0.local.progress);
        if shown.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, &self.progress)) {
            *shown = None;
        }
        drop(shown);
        let name = self.of.0.name.clone();
        self.of.0.commands.send(Command::Ended(name, self.term, self.progress.clone())).ok();
    }
}

/// Work in a task of its own. Dropped, it is stopped; its end is told only when it has.
struct Task {
    handle: Option<JoinHandle<()>>,
    ending: Option<Ending>,
}

impl Task {
    fn spawn(work: impl Future<Output = ()> + Send + 'static, ending: Ending) -> Self {
        Self { handle: Some(tokio::spawn(work)), ending: Some(ending) }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        handle.abort();
        let ending = self.ending.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                handle.await.ok();
                drop(ending);
            });
        }
    }
}
