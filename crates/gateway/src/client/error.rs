//! Why a request got no answer.

use std::io;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy;

use super::host;

/// Why a request got no answer, told apart by what would have to change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection: the name did not resolve, or nothing listens there.
    #[error("could not connect to {host}")]
    Connect {
        /// Host and port of the request.
        host: String,
        /// What the network said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A connection, but no TLS on it that can be trusted.
    #[error("the TLS handshake with {host} failed")]
    Tls {
        /// Host and port of the request.
        host: String,
        /// What TLS said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No complete answer in time; whether the request took effect is unknown.
    #[error("{host} did not answer within {limit:?}")]
    Timeout {
        /// Host and port of the request.
        host: String,
        /// The limit that passed.
        limit: Duration,
    },
    /// An answer larger than allowed.
    #[error("the answer of {host} is larger than {limit} bytes")]
    TooLarge {
        /// Host and port of the request.
        host: String,
        /// The limit that was passed.
        limit: usize,
    },
    /// The connection ended, or spoke no HTTP, before there was an answer.
    #[error("the exchange with {host} broke off")]
    Exchange {
        /// Host and port of the request.
        host: String,
        /// What HTTP said.
        source: legacy::Error,
    },
    /// The connection ended inside the answer.
    #[error("the answer of {host} broke off")]
    Body {
        /// Host and port of the request.
        host: String,
        /// What HTTP said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The extra root certificates are no certificates.
    #[error("the root certificate is not valid PEM of certificates")]
    RootsPem {
        /// What the parser said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The extra root certificates are empty.
    #[error(
        "the root certificate file holds no certificate: it must be PEM with BEGIN CERTIFICATE"
    )]
    NoRootsInPem,
    /// Nobody to trust.
    #[error(
        "this system has no root certificates: install the package ca-certificates, or name a root certificate in the configuration"
    )]
    NoRoots,
    /// The user agent cannot be sent in a header.
    #[error("the user agent holds characters that a header cannot carry")]
    UserAgent,
}

impl Error {
    pub(super) fn from_exchange(uri: &Uri, failure: legacy::Error) -> Self {
        let host = host(uri);
        let (connect, tls) = (failure.is_connect(), is_tls(&failure));
        let source = Box::new(failure);
        match (connect, tls) {
            (true, true) => Error::Tls { host, source },
            (true, false) => Error::Connect { host, source },
            _ => Error::Exchange { host, source: *source },
        }
    }

    /// Whether the request surely never reached the other side, so that it can be sent again without care.
    pub fn never_sent(&self) -> bool {
        !matches!(
            self,
            Error::Timeout { .. }
                | Error::TooLarge { .. }
                | Error::Exchange { .. }
                | Error::Body { .. }
        )
    }

    /// Whether the connection ended before there was any answer, as when the other side closed it while the request was
    /// on its way. The request may have been carried out.
    pub fn is_cut_off(&self) -> bool {
        let Error::Exchange { source, .. } = self else { return false };
        causes(source).any(|cause| {
            let by_http = cause.downcast_ref::<hyper::Error>().is_some_and(|error| {
                error.is_incomplete_message() || error.is_canceled() || error.is_closed()
            });
            by_http || cause.downcast_ref::<io::Error>().is_some_and(|error| ended(error.kind()))
        })
    }
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

fn ended(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof,
    };
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof)
}

/// The TCP connector fails with an error type of its own, the TLS one with an I/O error.
fn is_tls(failure: &legacy::Error) -> bool {
    std::error::Error::source(failure).is_some_and(<dyn std::error::Error>::is::<io::Error>)
}
