//! Challenge answers, for whichever replica or edge is asked.

use async_trait::async_trait;
use holdfast_model::Hostname;

use crate::Result;

/// How control is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChallengeKind {
    /// A file under `/.well-known/acme-challenge/`.
    Http01,
    /// A handshake with a certificate that carries the digest.
    TlsAlpn01,
}

impl ChallengeKind {
    /// The CA's name for it, as stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// An answer to be kept while its order is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChallenge {
    /// How.
    pub kind: ChallengeKind,
    /// The CA's token.
    pub token: String,
    /// Token and account thumbprint.
    pub key_authorization: String,
    /// Where the CA is told to look.
    pub url: String,
    /// Where its authorization is polled.
    pub authorization_url: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeAnswer {
    /// The name it proves.
    pub name: Hostname,
    /// How.
    pub kind: ChallengeKind,
    /// What to say.
    pub key_authorization: String,
}

/// A challenge that is open, with its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenChallenge {
    /// The CA's token.
    pub token: String,
    /// What to say.
    pub answer: ChallengeAnswer,
}

/// Challenge answers.
#[async_trait]
pub trait Challenges: Send + Sync {
    /// The answer to a token.
    async fn challenge_answer(&self, token: &str) -> Result<Option<ChallengeAnswer>>;

    /// The TLS-ALPN answer for a name.
    async fn alpn_answer(&self, name: &Hostname) -> Result<Option<ChallengeAnswer>>;

    /// All that are open, newest first, up to `limit`.
    async fn open_challenges(&self, limit: u32) -> Result<Vec<OpenChallenge>>;
}
