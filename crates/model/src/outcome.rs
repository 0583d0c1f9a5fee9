//! What a handler may come back with. An outcome says what happened outside, never where to go: that is
//! the table's business.

use crate::{Note, Timestamp};

macro_rules! outcomes {
    ($($name:ident $({ $($field:ident: $type:ty),* })? , $doc:literal;)*) => {
        /// The result of trying one step.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Outcome {
            $(#[doc = $doc] $name $({ $(#[doc = "See the type."] $field: $type,)* })?,)*
        }

        /// An outcome without what it carries: the key of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum OutcomeKind { $(#[doc = $doc] $name,)* }

        impl OutcomeKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name, as drawn in the docs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }

        impl Outcome {
            /// The key of the table.
            #[must_use]
            pub const fn kind(&self) -> OutcomeKind {
                match self { $(Self::$name { .. } => OutcomeKind::$name,)* }
            }
        }
    };
}

outcomes! {
    Accepted, "Taken in; nothing was brought along.";
    Imported, "A key and chain that fit were brought along.";
    DnsPointed, "The name is pointed at us.";
    DnsNotPointed { note: Note }, "It is not, and this is what was seen instead.";
    DnsSilent { note: Note }, "DNS did not answer a short look, which is no verdict: look again with all patience, at no cost.";
    OrderCreated, "The CA made, or gave back, an order.";
    CaWaits, "The CA asked to wait, or the order budget is spent: back to the queue, at no cost.";
    Deferred { note: Note, until: Timestamp }, "The CA refuses what this name needs for now: asked again then, at no cost.";
    CaUnavailable { note: Note, retry_after: Option<Timestamp> }, "In the middle of an order the CA gave no ACME answer, or asked to wait: that says nothing of this domain.";
    OrderAbandoned, "The order is of an account that is not used any more: back to the queue, at no cost.";
    ChallengeReady, "The challenge is known and its answer is in the same commit.";
    AlreadyAuthorized, "The CA remembers an earlier proof: nothing to prove.";
    ChallengeAccepted, "The CA was told to look.";
    ChallengePending { retry_after: Option<Timestamp> }, "The CA has not decided.";
    ChallengeValid, "The CA is satisfied.";
    ChallengeInvalid { note: Note }, "The CA is not: this order is spent.";
    OrderProcessing { retry_after: Option<Timestamp> }, "Finalized; the CA is still signing.";
    CertificateIssued, "The certificate is in the same commit.";
    OrderGone { note: Note }, "The order is invalid, expired or unknown: a new one is needed.";
    DeploymentSeen, "Seen in a handshake, or stored where nobody is asked to serve it.";
    DeploymentPending { note: Note }, "An edge is still applying, or none is alive.";
    DeploymentRefused { note: Note }, "Every live edge refused it.";
    RenewalLater { look_at: Timestamp }, "Not due: look again then.";
    RenewalPlanned { look_at: Timestamp, note: Note }, "Not renewed now: look again then, and this is to be known meanwhile.";
    RenewalNeeded, "Due: by the CA's window, by age, or by request.";
    CertificateDamaged { note: Note }, "What is stored of the certificate cannot be served any more: a new one is needed.";
    TimeToRetry, "The wait in a failure state is over, or a person asked.";
    Trouble { note: Note }, "Something a later try can mend.";
    Hopeless { note: Note }, "Something no try can mend.";
}

impl Outcome {
    /// Shorthand for what a later try can mend.
    #[must_use]
    pub fn trouble(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Trouble { note: Note::new(code, detail) }
    }

    /// Shorthand for what no try can mend.
    #[must_use]
    pub fn hopeless(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Hopeless { note: Note::new(code, detail) }
    }

    /// What it has to say, if anything: the cause of a failure, mostly.
    #[must_use]
    pub const fn note(&self) -> Option<&Note> {
        match self {
            Self::DnsNotPointed { note }
            | Self::DnsSilent { note }
            | Self::ChallengeInvalid { note }
            | Self::OrderGone { note }
            | Self::DeploymentPending { note }
            | Self::DeploymentRefused { note }
            | Self::CertificateDamaged { note }
            | Self::RenewalPlanned { note, .. }
            | Self::Deferred { note, .. }
            | Self::CaUnavailable { note, .. }
            | Self::Trouble { note }
            | Self::Hopeless { note } => Some(note),
            _ => None,
        }
    }

    /// When the other side asked to be left alone until.
    #[must_use]
    pub const fn not_before(&self) -> Option<Timestamp> {
        match self {
            Self::ChallengePending { retry_after }
            | Self::OrderProcessing { retry_after }
            | Self::CaUnavailable { retry_after, .. } => *retry_after,
            Self::RenewalLater { look_at } | Self::RenewalPlanned { look_at, .. } => Some(*look_at),
            _ => None,
        }
    }
}
