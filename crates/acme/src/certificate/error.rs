//! Why a certificate or its key is not taken: each names what was given and what would do.

use holdfast_model::{Hostname, Timestamp};

/// Why a chain or its key is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCertificate {
    /// Larger than any chain.
    #[error(
        "the chain has {size} bytes, more than {limit}; give the leaf and its intermediates alone"
    )]
    ChainTooLarge {
        /// What was given.
        size: usize,
        /// What is taken.
        limit: usize,
    },
    /// More certificates than any chain has.
    #[error(
        "the chain has more than {limit} certificates; give the leaf and its intermediates alone"
    )]
    ChainTooLong {
        /// What is taken.
        limit: usize,
    },
    /// No certificate in it.
    #[error(
        "the chain holds no certificate; give PEM that begins with -----BEGIN CERTIFICATE-----, leaf first"
    )]
    NoCertificate,
    /// PEM that does not hold together.
    #[error("the chain is not valid PEM: {0}; give it as the CA delivered it")]
    ChainNotPem(String),
    /// Something else than certificates in it.
    #[error("the chain holds a `{0}`; give certificates alone there, and the key apart")]
    NotACertificate(String),
    /// Not X.509.
    #[error("certificate {place} of the chain cannot be read: {problem}; give X.509 in PEM")]
    NotX509 {
        /// From one: the leaf.
        place: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A CA's own certificate in first place.
    #[error(
        "the first certificate, `{0}`, is a CA's own; put the leaf first, then each one's issuer"
    )]
    LeafIsCa(String),
    /// A link that does not hold.
    #[error(
        "certificate {place}, `{subject}`, is not issued by the next one, `{next}`: {problem}; order the chain leaf first, each followed by its issuer"
    )]
    BrokenChain {
        /// From one: the leaf.
        place: usize,
        /// Whose certificate it is.
        subject: String,
        /// Whose the next one is.
        next: String,
        /// What does not fit.
        problem: String,
    },
    /// Some other name's certificate.
    #[error(
        "the certificate does not cover `{name}` but {covers}; give one whose subject alternative names have it"
    )]
    WrongName {
        /// What was asked for.
        name: Hostname,
        /// What it covers.
        covers: String,
    },
    /// Not for servers.
    #[error(
        "the certificate's key usage does not allow signatures (digitalSignature), so visitors refuse it; give one for TLS servers"
    )]
    WrongUsage,
    /// Too early.
    #[error(
        "the certificate is valid only from {from}, now is {now}; import it then, or give one that is valid"
    )]
    NotYetValid {
        /// Start of validity.
        from: Timestamp,
        /// The store's clock.
        now: Timestamp,
    },
    /// Too late.
    #[error("the certificate expired at {until}, now is {now}; give one that is valid")]
    Expired {
        /// End of validity.
        until: Timestamp,
        /// The store's clock.
        now: Timestamp,
    },
    /// Larger than any key.
    #[error("the key has {size} bytes, more than {limit}; give one private key in PEM")]
    KeyTooLarge {
        /// What was given.
        size: usize,
        /// What is taken.
        limit: usize,
    },
    /// Not a key in PEM.
    #[error("the key is not a private key in PEM: {0}; give PKCS #8, SEC 1 or PKCS #1")]
    KeyNotPem(String),
    /// A passphrase stands before it.
    #[error("the key is encrypted; give it without a passphrase (openssl pkey -in KEY -out PLAIN)")]
    KeyEncrypted,
    /// A kind or size of key that is not served.
    #[error(
        "the key cannot be used: {0}; give RSA from 2048 bits, ECDSA P-256 or P-384, or Ed25519"
    )]
    KeyUnusable(String),
    /// The key of some other certificate.
    #[error(
        "the key is not the one of the certificate for {0}; give the key that its request was signed with"
    )]
    KeyMismatch(String),
    /// A key that no account of ours can have.
    #[error(
        "the account key is {0}, and requests to the CA are signed with ECDSA P-256 alone (certbot's account keys are RSA): change the account's key to ECDSA P-256 with a client that can (ACME calls it key rollover) and bring that one, or leave it out: a new account is made, and renews certificates of any account"
    )]
    NotForAccounts(&'static str),
}
