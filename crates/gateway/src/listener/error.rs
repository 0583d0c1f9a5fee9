//! Why there is no listener, and what to do about it.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::pem;

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else listens there.
    #[error("{address} is already in use: stop what listens there (`ss -ltnp 'sport = :{}'` shows it), or choose another address", address.port())]
    InUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// A port below 1024 without the right to it.
    #[error(
        "{address} needs a privilege this process lacks: choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE"
    )]
    NotPermitted {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Not an address of this machine.
    #[error(
        "{address} is not an address of this machine: choose one that `ip address` lists, or 0.0.0.0 for all"
    )]
    NotHere {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Anything else the system objects to.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The certificate chain cannot be read.
    #[error("the TLS certificate is not valid PEM")]
    CertificatePem {
        /// What the parser said.
        source: pem::Error,
    },
    /// The certificate chain is empty.
    #[error("the TLS certificate file holds no certificate: it must be PEM with BEGIN CERTIFICATE")]
    NoCertificate,
    /// The key cannot be read.
    #[error("the TLS key is not valid PEM of a private key")]
    KeyPem {
        /// What the parser said.
        source: pem::Error,
    },
    /// Key and certificate do not go together, or are of no use.
    #[error("the TLS certificate and key cannot be used")]
    Certificate {
        /// What TLS said.
        source: rustls::Error,
    },
    /// The authorities for client certificates are of no use.
    #[error("the client CA cannot be used")]
    ClientCa {
        /// What TLS said.
        source: rustls::server::VerifierBuilderError,
    },
}

impl Error {
    pub(super) fn from_bind(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Error::InUse { address },
            io::ErrorKind::PermissionDenied => Error::NotPermitted { address },
            io::ErrorKind::AddrNotAvailable => Error::NotHere { address },
            _ => Error::Bind { address, source },
        }
    }
}
