//! Why the development network could not start.

use std::io;
use std::path::PathBuf;

/// Why the development network could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener of the CA could not be opened.
    #[error("the development CA cannot listen")]
    Listen(#[from] holdfast_gateway::listener::Error),
    /// A socket of the DNS zone could not be opened.
    #[error("the development DNS zone cannot listen on {address}")]
    Dns {
        /// The address asked for.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate of the CA's own could not be made.
    #[error("the development CA's own certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// The kept keys cannot be used.
    #[error("{} holds no usable CA: remove it to start with a new one", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("a file of the development CA could not be written")]
    File(#[from] holdfast_gateway::files::Error),
    /// A directory or file could not be read.
    #[error("{} cannot be opened", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Reading what was kept was cut short by the runtime's end.
    #[error("the runtime ended while the CA was starting")]
    Interrupted,
    /// The configuration has no profile to issue under.
    #[error("the development CA needs at least one profile")]
    NoProfile,
    /// TLS settings were refused.
    #[error("the development CA's TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// A record of the zone means nothing.
    #[error("a record of the development zone cannot be set")]
    Zone(#[from] crate::ZoneError),
}
