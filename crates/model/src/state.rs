//! The states of a domain, by the names that stand in the API, the history and the page.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The text is not one of the states.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a state; the states are {list}", list = State::list())]
pub struct UnknownState(pub String);

/// What a stretch of states is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Just added.
    Intake,
    /// Is the name pointed at us?
    Dns,
    /// An order at the CA.
    Order,
    /// Proof of control.
    Challenge,
    /// The certificate, from the CA to us.
    Download,
    /// The certificate, from us to the edge.
    Deployment,
    /// Served, or over.
    Rest,
    /// On the way to a newer certificate.
    Renewal,
}

macro_rules! states {
    ($($name:ident, $phase:ident, $doc:literal;)*) => {
        /// Where a domain stands.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum State { $(#[doc = $doc] $name,)* }

        impl State {
            /// Every state, in the order of the happy path, failures beside their phase.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name that stands.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The stretch it belongs to.
            #[must_use]
            pub const fn phase(self) -> Phase {
                match self { $(Self::$name => Phase::$phase,)* }
            }
        }
    };
}

states! {
    Initial, Intake, "Added; nothing was done yet.";
    DnsVerifying, Dns, "Looking whether the name is pointed at the edge.";
    DnsVerified, Dns, "The name is pointed at the edge.";
    DnsVerificationFailed, Dns, "Not pointed at the edge; under slow watch.";
    AcmeOrdering, Order, "Waiting for, or making, an order at the CA.";
    AcmeOrderCreated, Order, "The CA has an order; its URL is stored.";
    AcmeOrderFailed, Order, "No usable order; tried again on the ladder.";
    AcmeChallengePreparing, Challenge, "Fetching the challenge and storing its answer.";
    AcmeChallengePrepared, Challenge, "Every replica can answer; the CA was not told yet.";
    AcmeChallengeValidating, Challenge, "The CA is looking.";
    AcmeChallengeValidated, Challenge, "The CA is satisfied; key and CSR are sealed.";
    AcmeChallengeFailed, Challenge, "The CA was not satisfied; tried again on the ladder.";
    CertificateDownloading, Download, "Finalizing the order and fetching the certificate.";
    CertificateDownloaded, Download, "The certificate is stored.";
    CertificateDownloadFailed, Download, "Not fetched yet; the same order is tried again.";
    CertificateDeploying, Deployment, "The edges are taking it.";
    CertificateDeployed, Deployment, "Seen in a handshake at the edge.";
    CertificateDeploymentFailed, Deployment, "No edge serves it; tried again on the ladder.";
    Active, Rest, "Seen served at an edge; with `[edge] mode = \"none\"`, stored to be fetched.";
    Failed, Rest, "Given up; only a person's retry leads out.";
    RenewalDue, Renewal, "The certificate is due for renewal.";
    Renewing, Renewal, "On the way to a new order; the old certificate is served.";
}

impl State {
    /// Is this one of the states in which a phase has failed and waits for its next try?
    #[must_use]
    pub const fn is_phase_failure(self) -> bool {
        matches!(
            self,
            Self::DnsVerificationFailed
                | Self::AcmeOrderFailed
                | Self::AcmeChallengeFailed
                | Self::CertificateDownloadFailed
                | Self::CertificateDeploymentFailed
        )
    }

    /// Is this a state in which a person who waits should be told "it failed"?
    #[must_use]
    pub const fn is_failure(self) -> bool {
        self.is_phase_failure() || matches!(self, Self::Failed)
    }

    fn list() -> String {
        Self::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| UnknownState(text.to_owned()))
    }
}
