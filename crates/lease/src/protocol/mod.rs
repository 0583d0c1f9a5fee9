//! The protocol: one process, all its leases, as one pure and synchronous machine.
//!
//! ```text
//!                        Contend                            row looks free
//!            ┌──────┐ ─────────────▶ ┌───────────┐ ──────────────────────────▶ Acquire
//!            │ Idle │                │ Following │ ◀── refused, failed, unknown ──┘ │
//!            └──────┘ ◀───────────── └───────────┘                                  │ granted
//!                ▲       Withdraw      │  ▲   look again: at the expiry seen,       ▼
//!                │                     └──┘   when woken, or every poll      ┌─────────┐
//!      released, │                        ▲                                  │ Holding │ ◀─┐ renewed
//!      not       │      released,         │                                  └─────────┘ ──┘
//!      wanted    │      wanted again      │     lost: deadline, the store's answer  │
//!                │                     ┌────────┐   stepped down: work has ended    │
//!                └──────────────────── │ Ending │ ◀─────────────────────────────────┘
//!                                      └────────┘
//! ```
//!
//! [`step`] takes what happened and the time by this machine's boot clock, changes the [`State`] and returns what to do.
//! Nothing here knows a store, tokio or a clock: production ([`crate::Elector`]), the simulator and the model checker
//! drive the same code.
//!
//! # Rules, and why
//!
//! 1. **Time is taken before sending.** A lease is believed in until `t0 + ttl × (1 − drift) − margin`, where `t0` is the
//!    moment the request was *sent*. The store's expiry counts from when it acted, which is later. A deadline armed
//!    when the reply arrives is longer than the lease by the time the reply took.
//! 2. **Belief is a time, not a flag.** [`Action::Believe`] hands out a deadline that is compared at every question, so a
//!    stalled process stops believing by itself. Work is cancelled a little before, so that it can end in time.
//! 3. **Only the store's answer or the deadline ends a term.** An error says nothing: it neither keeps nor loses a lease.
//!    A timeout is *unknown*: the request may have acted, so every repetition is idempotent.
//! 4. **A term above the last.** [`Acquire`](crate::request::Acquire) asks for a term above the highest this process has
//!    seen end. A row of its own above that is the answer to a request whose reply was lost, and is granted as it is:
//!    no process locks itself out. A row of its own at or below it is a term it already declared over: it gets a new one.
//! 5. **Identity is `(incarnation, term)`.** Renewal and release match both, and never change the match key on a heartbeat:
//!    a lost reply would lock the holder out.
//! 6. **Lost first, then released.** Belief ends, `Lost` or `SteppedDown` is told, work is cancelled; when the work has ended,
//!    the lease is released. While work winds down after a step-down, the lease is kept but not renewed: work that does
//!    not stop cannot keep it for ever. A process whose old work has not ended does not contend.
//! 7. **Readers before writers.** A follower reads without a lock, and sends the acquiring statement only when the row looks
//!    free, or when it is told by name that something happened to it: most often it was let go of. It looks again at the expiry it
//!    saw; so an idle follower costs two or three reads per lease. News that come while a request is on its way make the answer
//!    old: it looks again.
//! 8. **Life is seen, not only dated.** The store's clock may be set back. A row whose `(incarnation, term, beat)` this process
//!    has itself seen unchanged for `ttl × (1 + drift) + margin` may be taken in exactly that state: its owner's belief
//!    ended before. A renewal carries its owner's own time as its beat. Once the store's clock is known to have been set back, that
//!    tells when the last sign of life was sent, however long ago somebody looked, and the span counts from there.
//! 9. **One request at a time.** All leases share one connection; renewals go first and travel in one batch. A request is given
//!    up after `request_timeout` and carries a `not_after` by the store's clock, so that it cannot act later.
//! 10. **Priorities only rank.** A contender below the last holder's priority hesitates. One above the holder's may *ask* it to
//!     step down, after it has been steady for a while and the holder has had its cooldown; the holder lets go in the
//!     usual way, in its favour.
//! 11. **A beacon is a hint of death, not a lock.** Where both keep one, a follower may take a row as soon as the session of its owner's
//!     beacon is gone. An owner that loses its session is lost at once, also in a term that is only being granted. A session can
//!     end while its process lives, so at most one process *believes* no longer holds; fences must do the rest. A term won before
//!     the beacon was lit has it noted as soon as it is: its owner acquires again, and is granted the same term.

pub(crate) mod bug;
mod ending;
mod following;
mod holding;
mod input;
mod lease;
mod noting;
mod pump;
mod reply;
mod sight;
mod state;
mod waking;

pub use self::input::{Action, Input, Reply, Request, RequestId};
pub use self::lease::{Failback, Wish};
pub use self::state::State;

use crate::clock::Moment;

/// Takes what happened and when, and says what to do, in this order.
///
/// Deadlines come first, whatever the input: after a pause the news that arrives must not be believed in a term that is over.
pub fn step(state: &mut State, input: Input, now: Moment) -> Vec<Action> {
    let mut actions = Vec::new();
    state.expire(now, &mut actions);
    state.give_up(now, &mut actions);
    state.take(input, now, &mut actions);
    state.pump(now, &mut actions);
    actions
}
