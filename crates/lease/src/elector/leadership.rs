//! A handle to one lease: ask, watch, work under it, let go.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::driver::Command;
use super::work::Progress;
use super::{Local, Shared, Standing, Work, lock};
use crate::clock::Moment;
use crate::error::Error;
use crate::event::Loss;
use crate::fence::Token;
use crate::identity::{Holder, Name, Term};
use crate::row::{Owner, Row};

/// A lease that is contended for as long as a clone of this lives.
#[derive(Clone)]
pub struct Leadership(Arc<Inner>);

struct Inner {
    name: Name,
    local: Arc<Local>,
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.commands.send(Command::Withdraw(self.name.clone())).ok();
    }
}

/// Work that was let begin: the signs by which it is stopped.
struct Begun {
    work: Work,
    by: watch::Receiver<Option<Moment>>,
}

impl Leadership {
    pub(super) fn new(
        name: Name,
        local: Arc<Local>,
        shared: Arc<Shared>,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Self(Arc::new(Inner { name, local, shared, commands }))
    }

    /// Whether this process holds the lease now. The time is compared at every call; it costs little more than reading the
    /// clock. What must not happen late needs a fence as well: the answer is old when it arrives.
    #[inline]
    pub fn is_leader(&self) -> bool {
        self.0.local.belief.holds(self.0.shared.clock.now())
    }

    /// The term held now.
    pub fn term(&self) -> Option<Term> {
        self.0.local.belief.term(self.0.shared.clock.now())
    }

    /// The right to write under the term held now.
    pub fn token(&self) -> Option<Token> {
        self.term().map(|term| self.token_of(term))
    }

    fn token_of(&self, term: Term) -> Token {
        let incarnation = self.0.shared.incarnation;
        Token { name: self.0.name.clone(), term, incarnation }
    }

    /// The lease.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// Where this process stands, as it changes. It tells of changes; whether the lease is held *now*, ask
    /// [`Leadership::is_leader`].
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.0.local.standing.subscribe()
    }

    /// Waits until this process holds the lease: the term.
    pub async fn elected(&self) -> Result<Term, Error> {
        let mut standing = self.watch();
        let mut condition = self.0.shared.condition.subscribe();
        loop {
            if let (Standing::Leading(term), true) =
                (&*standing.borrow_and_update(), self.is_leader())
            {
                return Ok(*term);
            }
            tokio::select! {
                changed = standing.changed() => changed.map_err(|_| Error::ShutDown)?,
                _ = condition.wait_for(|condition| condition.ended) => return Err(Error::ShutDown),
            }
        }
    }

    /// Lets go of the lease, for this holder or for anyone, and contends again afterwards.
    pub fn step_down(&self, successor: Option<Holder>) {
        self.0.commands.send(Command::StepDown(self.0.name.clone(), successor)).ok();
    }

    /// Does this work whenever the lease is held, for ever: started when elected, cancelled when lost, and dropped if it has not
    /// ended when the lease does. Work that ends or panics by itself lets go of the lease, so that another process has a
    /// go. Ends only when the elector does.
    pub async fn run_while_leader<F, Fut>(&self, mut work: F) -> Error
    where
        F: FnMut(Work) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        loop {
            let term = match self.elected().await {
                Ok(term) => term,
                Err(ended) => return ended,
            };
            let Some(Begun { work: context, by }) = self.begin(term).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let _ending = Ending { of: self, term };
            let mut task = Abort(tokio::spawn(work(context)));
            match self.until(by, &mut task.0).await {
                Some(Ok(())) => {}
                Some(Err(panicked)) => {
                    error!(lease = %self.0.name, %term, %panicked, "work under a lease panicked");
                }
                None => {
                    task.0.abort();
                    // Code that never yields goes on until it does: until then this process does not contend.
                    (&mut task.0).await.ok();
                }
            }
        }
    }

    pub(super) async fn once<T, F, Fut>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(Work) -> Fut,
        Fut: Future<Output = T>,
    {
        let term = self.elected_or_refused().await?;
        let lost = || Error::LeaseLost { name: self.0.name.clone(), term, why: Loss::Deadline };
        let Begun { work: context, by } = self.begin(term).await.ok_or_else(lost)?;
        // Declared first, so that the work is dropped before its end is told.
        let _ending = Ending { of: self, term };
        let mut working = pin!(work(context));
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
            standing.changed().await.map_err(|_| Error::ShutDown)?;
        }
    }

    /// Why this row is not for this process; none if it may be.
    fn refusal(&self, row: &Row) -> Option<Error> {
        let (name, until) = (self.0.name.clone(), row.expires_at);
        match (&row.owner, &row.successor) {
            (Some(Owner { holder, incarnation }), _)
                if *incarnation != self.0.shared.incarnation =>
            {
                let (holder, term, since) = (holder.clone(), row.term, row.since);
                Some(Error::Held { name, holder, term, since, until })
            }
            (None, Some(successor)) if *successor != self.0.shared.holder => {
                Some(Error::Reserved { name, successor: successor.clone(), until })
            }
            _ => None,
        }
    }

    /// Asks the driver to let work begin under this term; none if it is over already.
    async fn begin(&self, term: Term) -> Option<Begun> {
        let (cancelled, (by, until)) = (CancellationToken::new(), watch::channel(None));
        let (reply, may) = oneshot::channel();
        let begin = Command::Begin(self.0.name.clone(), term, cancelled.clone(), by, reply);
        self.0.commands.send(begin).ok()?;
        may.await.ok().filter(|may| *may)?;
        let progress = Arc::new(Progress::default());
        *lock(&self.0.local.progress) = Some(progress.clone());
        let clock = self.0.shared.clock.clone();
        Some(Begun {
            work: Work { token: self.token_of(term), cancelled, progress, clock },
            by: until,
        })
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

    /// The work is over: if the lease is still held, it is let go of, so that it can be won anew.
    fn end(&self, term: Term) {
        *lock(&self.0.local.progress) = None;
        let name = self.0.name.clone();
        if self.0.local.belief.term(self.0.shared.clock.now()) == Some(term) {
            self.0.commands.send(Command::StepDown(name.clone(), None)).ok();
        }
        self.0.commands.send(Command::Ended(name, term)).ok();
    }
}

/// Tells the end of work, also when whoever ran it is dropped.
struct Ending<'a> {
    of: &'a Leadership,
    term: Term,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.of.end(self.term);
    }
}

/// A task that ends with its owner.
struct Abort<T>(JoinHandle<T>);

impl<T> Drop for Abort<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
