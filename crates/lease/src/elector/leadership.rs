//! A handle to one lease: ask, watch, let go.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::driver::Command;
use super::{Local, Shared, Standing};
use crate::error::Error;
use crate::fence::Token;
use crate::identity::{Holder, Name, Term};

/// A lease that is contended for as long as a clone of this lives.
#[derive(Clone)]
pub struct Leadership(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) name: Name,
    pub(super) local: Arc<Local>,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.commands.send(Command::Withdraw(self.name.clone(), self.local.clone())).ok();
    }
}

impl Leadership {
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

    pub(super) fn token_of(&self, term: Term) -> Token {
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

    /// Waits until this process holds the lease: the term. [`Error::ShutDown`] when the elector has ended.
    pub async fn elected(&self) -> Result<Term, Error> {
        self.elected_by(&mut self.watch()).await
    }

    /// The same; what was seen in the watch until then counts as seen.
    pub(super) async fn elected_by(
        &self,
        standing: &mut watch::Receiver<Standing>,
    ) -> Result<Term, Error> {
        loop {
            if let (Standing::Leading(term), true) =
                (&*standing.borrow_and_update(), self.is_leader())
            {
                return Ok(*term);
            }
            self.changed(standing).await?;
        }
    }

    /// Waits until this process stands otherwise than was seen.
    pub(super) async fn changed(
        &self,
        standing: &mut watch::Receiver<Standing>,
    ) -> Result<(), Error> {
        let mut condition = self.0.shared.condition.subscribe();
        tokio::select! {
            changed = standing.changed() => changed.map_err(|_| Error::ShutDown),
            _ = condition.wait_for(|condition| condition.ended) => Err(Error::ShutDown),
        }
    }

    /// Lets go of the lease, for this holder or for anyone, and contends again afterwards.
    pub fn step_down(&self, successor: Option<Holder>) {
        self.0.commands.send(Command::StepDown(self.0.name.clone(), successor)).ok();
    }
}
