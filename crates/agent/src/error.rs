//! What can go wrong at an edge, named after the decision it forces.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::time::Duration;

use holdfast_gateway::{client, listener};
use holdfast_model::Note;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the edge did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control plane does not keep what came after that revision: list anew.
    #[error("the revision is not kept any more; the edge lists anew")]
    RevisionGone,
    /// The control plane does not know this edge: register again.
    #[error("the control plane does not know this edge; it registers again")]
    Unregistered,
    /// The control plane did not answer, or not now. The same call, later, may succeed.
    #[error("the control plane could not be reached")]
    Unavailable {
        /// What the way there said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The control plane answered, and will answer the same again.
    #[error("the control plane refused")]
    Refused {
        /// Its words.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// No answer in time.
    #[error("the control plane did not answer within {0:?}")]
    Timeout(Duration),
    /// A certificate that TLS cannot use for that name.
    #[error("the certificate of {name} cannot be served")]
    Unusable {
        /// The name.
        name: String,
        /// What is wrong with it.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Looking at what is served failed before anything could be seen.
    #[error("no handshake at {address} to see what is served")]
    Unseen {
        /// Where it was looked.
        address: SocketAddr,
        /// What the network or TLS said.
        source: std::io::Error,
    },
    /// The built-in edge cannot listen.
    #[error("the edge cannot listen")]
    Listen {
        /// Why not, and what to do.
        #[from]
        source: listener::Error,
    },
    /// The upstream is not one.
    #[error("`{0}` is no upstream; give it as http://HOST:PORT, without a path")]
    BadUpstream(String),
    /// The way to the upstream cannot be prepared.
    #[error("the way to the upstream cannot be prepared")]
    Client {
        /// Why not.
        #[from]
        source: client::Error,
    },
    /// TLS itself cannot be set up.
    #[error("TLS cannot be set up")]
    Tls {
        /// What TLS said.
        #[from]
        source: rustls::Error,
    },
}

impl Error {
    /// Would the same call, later, perhaps succeed, for reasons that have nothing to do with the name?
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Timeout(_) | Self::Unregistered)
    }

    /// As it is reported: a stable code, and the whole chain of causes.
    #[must_use]
    pub fn note(&self) -> Note {
        Note::new(self.code(), chain(self))
    }

    const fn code(&self) -> &'static str {
        match self {
            Self::RevisionGone => "edge-revision-gone",
            Self::Unregistered => "edge-unregistered",
            Self::Unavailable { .. } | Self::Timeout(_) => "edge-control-plane-unreachable",
            Self::Refused { .. } => "edge-control-plane-refused",
            Self::Unusable { .. } => "edge-certificate-unusable",
            Self::Unseen { .. } => "edge-handshake-failed",
            Self::Listen { .. } => "edge-cannot-listen",
            Self::BadUpstream(_) | Self::Client { .. } => "edge-upstream",
            Self::Tls { .. } => "edge-tls",
        }
    }
}

/// An error and all its causes in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some causes are quoted by what they caused.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}
