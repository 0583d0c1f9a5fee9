//! What an error amounts to: the few things that can be done about it.

use std::time::Duration;

use holdfast_model::{Note, WaitScope};

/// What to do about an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// The CA asks to wait. What is in scope waits, and nothing else, at no cost to a domain.
    Wait {
        /// What waits.
        scope: WaitScope,
        /// For how long, where it said so.
        after: Option<Duration>,
        /// In its words.
        note: Note,
    },
    /// The CA, or what stands before it, gave no ACME answer: it would say the same to any name.
    Unavailable(Note),
    /// The CA wants something done at a page of its own before it does anything for the account.
    ActionRequired(Note),
    /// A later try can mend it.
    Trouble(Note),
    /// What a CA in good order does not say of a request of ours: final only if it is said again of a new order.
    Doubtful(Note),
    /// No try can mend it.
    Hopeless(Note),
    /// The order is unknown, expired, or another account's: a new one is needed.
    OrderGone(Note),
    /// The CA does not know the account, even after it was registered anew.
    AccountGone(Note),
    /// The CA does not take the account's signature: no order is made until a person has an account registered anew.
    AccountUnusable(Note),
}

impl Class {
    /// The cause, whatever is done about it.
    #[must_use]
    pub const fn note(&self) -> &Note {
        match self {
            Self::Wait { note, .. }
            | Self::Unavailable(note)
            | Self::ActionRequired(note)
            | Self::Doubtful(note)
            | Self::Trouble(note)
            | Self::Hopeless(note)
            | Self::OrderGone(note)
            | Self::AccountGone(note)
            | Self::AccountUnusable(note) => note,
        }
    }
}
