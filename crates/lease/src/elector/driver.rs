//! The task that drives the protocol: carries its requests to the store, its clock to it, and its words to everyone.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, pending};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::health::Condition;
use super::work::Progress;
use super::{Local, Shared, Standing, lock};
use crate::clock::Moment;
use crate::error::StoreError;
use crate::event::{Event, Happening};
use crate::identity::{Holder, Name, Term};
use crate::protocol::{Action, Input, Reply, Request, RequestId, State, Wish, step};
use crate::request::Acquired;
use crate::row::{Row, StoreTime};
use crate::store::Store;

/// What is asked of the driver.
pub(super) enum Command {
    /// With a beacon, or without.
    Contend(Name, Wish, bool, Arc<Local>),
    Withdraw(Name, Arc<Local>),
    StepDown(Name, Option<Holder>),
    Begin(Begin),
    /// Work has ended, if it ever began.
    Ended(Name, Term, Arc<Progress>),
    Woken(Name),
    Listening(bool),
    /// The beacon is lit, or its session has ended.
    Beacon(bool),
    ShutDown,
}

/// Work wants to begin under this term: the signs by which it is stopped, and whether it may.
pub(super) struct Begin {
    pub(super) name: Name,
    pub(super) term: Term,
    /// Which work.
    pub(super) of: Arc<Progress>,
    pub(super) cancel: CancellationToken,
    pub(super) by: watch::Sender<Option<Moment>>,
    pub(super) reply: oneshot::Sender<bool>,
}

type Flight = BoxFuture<'static, Result<Reply, StoreError>>;

pub(super) struct Driver {
    pub(super) state: State,
    pub(super) store: Arc<Mutex<Box<dyn Store>>>,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) leases: BTreeMap<Name, Arc<Local>>,
    pub(super) works: BTreeMap<Name, Working>,
    pub(super) flight: Option<(RequestId, Request, Flight)>,
    pub(super) detailed: bool,
    pub(super) leaving: bool,
    /// Nobody is left who could ask for anything.
    pub(super) alone: bool,
    /// Withdrawn from, and perhaps not yet at rest.
    pub(super) withdrawn: BTreeSet<Name>,
}

pub(super) struct Working {
    term: Term,
    of: Arc<Progress>,
    cancel: CancellationToken,
    by: watch::Sender<Option<Moment>>,
}

/// Says that the driver has ended, also if it panicked: nobody renews any more, so nobody believes any more.
pub(super) struct Epitaph(pub(super) Arc<Shared>);

impl Drop for Epitaph {
    fn drop(&mut self) {
        if std::thread::panicking() {
            error!(holder = %self.0.holder, "the elector's task panicked");
        }
        for local in lock(&self.0.locals).values().filter_map(std::sync::Weak::upgrade) {
            local.belief.end();
            local.standing.send_replace(Standing::Unknown);
        }
        self.0.condition.send_modify(|condition| condition.ended = true);
        self.0.listeners().clear();
    }
}

impl Driver {
    pub(super) async fn run(mut self) {
        let _epitaph = Epitaph(self.shared.clone());
        while !(self.leaving && self.state.is_idle()) {
            let input = self.next().await;
            self.input(input);
            self.forget();
        }
    }

    /// Lets go of what the protocol remembers no more.
    fn forget(&mut self) {
        let state = &self.state;
        let gone: Vec<_> = self.withdrawn.extract_if(.., |name| !state.knows(name)).collect();
        for name in gone {
            if let Some(local) = self.leases.remove(&name) {
                self.shared.forget(&name, &local);
            }
        }
    }

    async fn next(&mut self) -> Input {
        let clock = self.shared.clock.clone();
        let wake_at = self.state.wake_at();
        let timer = async {
            match wake_at {
                Some(moment) => clock.sleep_until(moment).await,
                None => pending().await,
            }
        };
        let answer = async {
            match &mut self.flight {
                Some((_, _, flight)) => flight.await,
                None => pending().await,
            }
        };
        tokio::select! {
            answer = answer => self.answered(answer),
            command = self.commands.recv(), if !self.alone => self.command(command),
            () = timer => Input::Tick,
        }
    }

    fn command(&mut self, command: Option<Command>) -> Input {
        match command {
            // Whoever contends after the end was asked for is told of the end.
            Some(Command::Contend(..)) if self.leaving => Input::Tick,
            Some(Command::Contend(name, wish, beacon, local)) => {
                self.contend(&name, local);
                Input::Contend { name, wish, beacon }
            }
            Some(Command::Withdraw(name, local)) => self.withdraw(name, &local),
            Some(Command::StepDown(name, successor)) => Input::StepDown(name, successor),
            Some(Command::Begin(begin)) => {
                self.begin(begin);
                Input::Tick
            }
            Some(Command::Ended(name, term, of)) => self.ended(name, term, &of),
            Some(Command::Beacon(lit)) => {
                self.shared.condition.send_modify(|condition| condition.dark = !lit);
                Input::Beacon { lit }
            }
            Some(Command::Woken(name)) => Input::Woken(Some(name)),
            Some(Command::Listening(listening)) => {
                self.shared.condition.send_modify(|condition| condition.deaf = !listening);
                Input::Listening(listening)
            }
            // Every handle is gone, or asked for it: let go of everything in order.
            asked @ (Some(Command::ShutDown) | None) => {
                (self.leaving, self.alone) = (true, self.alone || asked.is_none());
                Input::ShutDown
            }
        }
    }

    /// A handle made while an older one for the same lease is on its way out begins anew.
    fn contend(&mut self, name: &Name, local: Arc<Local>) {
        let older = self.leases.get(name).is_some_and(|older| !Arc::ptr_eq(older, &local));
        if older {
            self.input(Input::Withdraw(name.clone()));
        }
        self.withdrawn.remove(name);
        self.leases.insert(name.clone(), local);
    }

    fn withdraw(&mut self, name: Name, local: &Arc<Local>) -> Input {
        match self.leases.get(&name) {
            Some(current) if Arc::ptr_eq(current, local) => {
                self.withdrawn.insert(name.clone());
                Input::Withdraw(name)
            }
            _ => Input::Tick,
        }
    }

    fn begin(&mut self, Begin { name, term, of, cancel, by, reply }: Begin) {
        let may = self.state.term(&name) == Some(term) && !self.works.contains_key(&name);
        if may {
            self.works.insert(name, Working { term, of, cancel, by });
        }
        reply.send(may).ok();
    }

    /// Work that ended by itself lets go of the lease.
    fn ended(&mut self, name: Name, term: Term, of: &Arc<Progress>) -> Input {
        if !self.works.get(&name).is_some_and(|working| Arc::ptr_eq(&working.of, of)) {
            return Input::Tick;
        }
        self.works.remove(&name);
        if self.state.term(&name) == Some(term) {
            self.input(Input::StepDown(name.clone(), None));
        }
        Input::WorkEnded(name, term)
    }

    fn answered(&mut self, answer: Result<Reply, StoreError>) -> Input {
        let Some((id, request, _)) = self.flight.take() else { return Input::Tick };
        match answer {
            Ok(reply) => {
                self.shared.condition.send_if_modified(Condition::answered);
                self.show(&request, &reply);
                Input::Answered(id, reply)
            }
            Err(error) => {
                self.failed(&error);
                Input::Failed(id)
            }
        }
    }

    fn failed(&self, error: &StoreError) {
        let cause = chain(error);
        let now = self.shared.clock.now();
        warn!(holder = %self.state.holder, cause, "a request to the lease store failed");
        self.shared.condition.send_modify(|condition| condition.fail(now, cause));
    }

    /// Lets followers see whom they follow. What has run out keeps nobody away, and is not shown.
    fn show(&self, request: &Request, reply: &Reply) {
        let see = |name: &Name, row: &Row, at: StoreTime| {
            let over = row.expires_at < at && (row.owner.is_some() || row.successor.is_some());
            if let Some(local) = self.leases.get(name).filter(|_| !over) {
                local.standing.send_if_modified(|standing| standing.follow(row));
            }
        };
        match (request, reply) {
            (Request::Look(names), Reply::Looked(looks)) => {
                for (name, (row, _)) in names.iter().zip(&looks.answer) {
                    row.iter().for_each(|row| see(name, row, looks.at));
                }
            }
            (Request::Acquire(acquire), Reply::Acquired(at)) => match &at.answer {
                Acquired::Refused(Some(row)) => see(&acquire.name, row, at.at),
                Acquired::Granted(row) => {
                    if let Some(local) = self.leases.get(&acquire.name) {
                        *lock(&local.granted) = Some(row.clone());
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let now = self.shared.clock.now();
            for action in step(&mut self.state, input, now) {
                inputs.extend(self.act(action));
            }
        }
    }

    /// Does what the protocol wants done; what follows from it at once is news to the protocol.
    fn act(&mut self, action: Action) -> Option<Input> {
        match action {
            Action::Send(id, request) => {
                if self.detailed {
                    debug!(holder = %self.state.holder, ?request, "asking the lease store");
                }
                let call = call(self.store.clone(), request.clone());
                // A store that panics has failed; the leases of a whole process must not end with it.
                let call = AssertUnwindSafe(call).catch_unwind().map(|answer| {
                    let panicked = || StoreError::new("asking the lease store", "it panicked");
                    answer.unwrap_or_else(|_| Err(panicked()))
                });
                self.flight = Some((id, request, call.boxed()));
                None
            }
            Action::Abandon(_) => {
                self.flight = None;
                // Nobody else holds the lock: dropping the call has freed it.
                if let Ok(mut store) = self.store.try_lock() {
                    store.disconnect();
                }
                self.failed(&StoreError::new("waiting for the lease store", "no answer in time"));
                None
            }
            Action::Believe { name, term, until } => {
                if let Some(local) = self.leases.get(&name) {
                    local.belief.hold(term, until);
                }
                None
            }
            Action::Disbelieve(name) => {
                if let Some(local) = self.leases.get(&name) {
                    local.belief.end();
                    local.standing.send_replace(Standing::Unknown);
                }
                None
            }
            Action::Tell(event) => {
                self.tell(&event);
                None
            }
            Action::Cancel { name, term, by } => match self.works.get(&name) {
                Some(working) if working.term == term => {
                    working.by.send_replace(Some(by));
                    working.cancel.cancel();
                    None
                }
                _ => Some(Input::WorkEnded(name, term)),
            },
        }
    }

    fn tell(&self, event: &Event) {
        let (lease, term) = (&event.name, event.term);
        match &event.happening {
            Happening::Elected => info!(%lease, %term, holder = %self.state.holder, "elected"),
            Happening::Lost(loss) => error!(%lease, %term, %loss, "lost"),
            Happening::RenewedLate { by } => warn!(%lease, %term, ?by, "renewed late"),
            Happening::SteppedDown { successor } => {
                info!(%lease, %term, ?successor, "stepped down");
            }
        }
        if let Some(local) = self.leases.get(&event.name)
            && event.happening == Happening::Elected
        {
            local.standing.send_replace(Standing::Leading(event.term));
        }
        let mut listeners = self.shared.listeners();
        listeners.retain(|listener| listener.send(event.clone()).is_ok());
    }
}

async fn call(store: Arc<Mutex<Box<dyn Store>>>, request: Request) -> Result<Reply, StoreError> {
    let mut store = store.lock().await;
    Ok(match &request {
        Request::Look(names) => Reply::Looked(store.look(names).await?),
        Request::Acquire(acquire) => Reply::Acquired(store.acquire(acquire).await?),
        Request::Renew(renew) => Reply::Renewed(store.renew(renew).await?),
        Request::Release(release) => Reply::Released(store.release(release).await?),
        Request::Ask(ask) => Reply::Asked(store.ask(ask).await?),
    })
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
