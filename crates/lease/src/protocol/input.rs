//! What happens to the protocol, and what it wants done.

use crate::clock::Moment;
use crate::event::Event;
use crate::identity::{Holder, Name, Term};
use crate::protocol::lease::Wish;
use crate::request::{Acquire, Acquired, Ask, At, Release, Renew, Renewed};
use crate::row::Row;

/// Numbers the requests of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Nothing but time.
    Tick,
    /// Start to contend for a lease.
    Contend {
        /// The lease.
        name: Name,
        /// How.
        wish: Wish,
        /// Whether with a beacon: only for a lease all of whose effects are guarded writes.
        beacon: bool,
    },
    /// Stop contending; let go if held.
    Withdraw(Name),
    /// Let go of a lease, for someone or for anyone, and contend again afterwards.
    StepDown(Name, Option<Holder>),
    /// The work done under this term has ended, or there was none.
    WorkEnded(Name, Term),
    /// The store says something happened to a lease; none: anything may have been missed.
    Woken(Option<Name>),
    /// Wake-ups work again, or no longer.
    Listening(bool),
    /// The beacon of this process is lit, or its session has ended.
    Beacon {
        /// Whether it is lit.
        lit: bool,
    },
    /// The store answered.
    Answered(RequestId, Reply),
    /// The request failed; it may have acted.
    Failed(RequestId),
    /// Withdraw from all.
    ShutDown,
}

/// An answer of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To [`Request::Look`]: the rows in the order asked, and whether each owner's beacon is gone.
    Looked(At<Vec<(Option<Row>, bool)>>),
    /// To [`Request::Acquire`].
    Acquired(At<Acquired>),
    /// To [`Request::Renew`]: in the order asked.
    Renewed(At<Vec<Renewed>>),
    /// To [`Request::Release`]: whether it was still ours.
    Released(At<bool>),
    /// To [`Request::Ask`]: whether it was written.
    Asked(At<bool>),
}

/// A request to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Reads rows without a lock.
    Look(Vec<Name>),
    /// Acquires one lease.
    Acquire(Acquire),
    /// Renews all leases of this process.
    Renew(Renew),
    /// Releases one lease.
    Release(Release),
    /// Asks an owner to step down.
    Ask(Ask),
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a request; its answer is handed back with the same id.
    Send(RequestId, Request),
    /// Give up a request: close its connection, and hand back nothing.
    Abandon(RequestId),
    /// From now and until this moment the lease is held.
    Believe {
        /// The lease.
        name: Name,
        /// The term.
        term: Term,
        /// When the belief ends, if nothing else comes.
        until: Moment,
    },
    /// The lease is held no more.
    Disbelieve(Name),
    /// Tell whoever listens.
    Tell(Event),
    /// Cancel the work done under this term; [`Input::WorkEnded`] is expected when it has ended.
    Cancel {
        /// The lease.
        name: Name,
        /// The term that is over.
        term: Term,
        /// When it must have ended.
        by: Moment,
    },
}
