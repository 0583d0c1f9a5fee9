//! What can go wrong at an edge, named after the decision it forces.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use holdfast_gateway::{client, files, listener};
use holdfast_model::Note;
use holdfast_store::{PROXY_DOWN, Revision, UNUSABLE};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// No longer than this is anybody left alone, whatever they ask for. An edge counts as live for thirty seconds: with the
/// heartbeat before it, a quarter more so that not everybody is back at once, and the way there, it is in time.
const LONGEST_ASKED: Duration = Duration::from_secs(12);

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
    /// The control plane asks to be left alone for a while.
    #[error("the control plane asks to be asked again in {after:?}")]
    Busy {
        /// For how long.
        after: Duration,
        /// Its words.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The control plane does not know the token, or not any more. The file may hold another one at the next try.
    #[error(
        "the control plane answers, but does not accept this edge's token ({said}); if its database was restored from a backup older than the token, or the token has ended, create another with `holdfast token create --scope edge --edge NAME --group GROUP` and put it in the token file"
    )]
    TokenRefused {
        /// Its words.
        said: String,
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
    /// What the control plane stores of a certificate is damaged.
    #[error("what is stored of the certificate is damaged")]
    Damaged {
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
    /// Nobody could make a handshake with the proxy, whatever name they ask for.
    #[error(
        "the proxy does not answer visitors at {address}; start it, or correct the address in `probe`"
    )]
    ProxyDown {
        /// Where it was looked.
        address: SocketAddr,
        /// What the network or TLS said.
        source: std::io::Error,
    },
    /// The right leaf is shown without the certificates that were delivered with it.
    #[error(
        "the edge shows the right certificate for {name}, but {missing} of the {needed} intermediate certificates delivered with it are missing, and many visitors cannot verify it; let the server read the whole chain, as it lies in the agent's directory"
    )]
    ChainIncomplete {
        /// The name.
        name: String,
        /// How many are missing.
        missing: usize,
        /// How many were delivered.
        needed: usize,
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
    /// The control plane answered something that cannot be true; nothing of it is believed.
    #[error("the control plane's answer is not believed: {0}")]
    Nonsense(String),
    /// The control plane is behind what it said before, within one epoch.
    #[error(
        "the control plane went back from revision {seen} to {said}; if its database was restored from a backup, run `holdfast restored --above {seen}` there"
    )]
    WentBack {
        /// What it said before.
        seen: Revision,
        /// What it says now.
        said: Revision,
    },
    /// A listing without most of what is served.
    #[error(
        "the control plane lists {listed} names, and {gone} of the {held} served here are not among them; they stay. If they are to go, create {confirm}"
    )]
    ListingShrank {
        /// How many names are listed.
        listed: usize,
        /// How many are served here.
        held: usize,
        /// How many of those are not listed.
        gone: usize,
        /// The file by which an operator confirms.
        confirm: String,
    },
    /// The proxy does not answer.
    #[error("HAProxy does not answer at {address}")]
    Proxy {
        /// Where it was asked.
        address: String,
        /// What the network said.
        source: std::io::Error,
    },
    /// The proxy answered, and not as it should.
    #[error("HAProxy refused `{command}`: {said}")]
    ProxyRefused {
        /// The command, without what it carried.
        command: String,
        /// Its words.
        said: String,
    },
    /// Somebody else is changing a certificate in the proxy.
    #[error(
        "somebody else's transaction for {file} is open in HAProxy; it must be committed or aborted (`abort ssl cert {file}`)"
    )]
    TransactionLocked {
        /// The certificate it is about.
        file: String,
    },
    /// Somebody else's transaction and ours got into each other's way.
    #[error(
        "somebody else changed certificates in HAProxy at the same moment; what was open for {file} was aborted and must be set again"
    )]
    TransactionCrossed {
        /// The certificate it was about.
        file: String,
    },
    /// Somebody else's command keeps HAProxy from taking ours.
    #[error(
        "somebody else's command on certificates is running in HAProxy, or its output is not being read; it must end (`show sess` lists connections to the socket)"
    )]
    CertificatesLocked,
    /// The certificate does not fit what the proxy can take in one command.
    #[error(
        "the certificate and its chain take {bytes} bytes, and HAProxy takes at most {limit} in one command; raise tune.bufsize in HAProxy and haproxy.bufsize here"
    )]
    PayloadTooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The proxy does not know the list that is ours.
    #[error(
        "HAProxy has not loaded {crt_list}; put `crt-list {crt_list}` on a bind line of its configuration"
    )]
    CrtListUnknown {
        /// The list.
        crt_list: String,
    },
    /// A certificate that is none of ours is served for the name.
    #[error(
        "{file}, which is not ours, is served for {name}; remove it, or take it over with `holdfast edge adopt`"
    )]
    Shadowed {
        /// The name.
        name: String,
        /// The file.
        file: String,
    },
    /// A file that the agent did not make stands where one of its own is to be.
    #[error(
        "{file} was there before the agent and is left alone; move it to another directory, then the certificate is written within minutes"
    )]
    NotOurs {
        /// The file.
        file: String,
    },
    /// The server cannot be reloaded without the files of a name that was taken away.
    #[error(
        "the files of {name} are back in place, since the server cannot be reloaded without them; take {name} out of its configuration: {why}"
    )]
    StillUsed {
        /// The name.
        name: String,
        /// Why the reload failed.
        why: String,
    },
    /// Taking a file over would stop serving a name.
    #[error("{file} cannot be taken over: {why}")]
    NotAdoptable {
        /// The file.
        file: String,
        /// Why not.
        why: String,
    },
    /// Nothing is deployed for the name any more.
    #[error("nothing is deployed for this name any more")]
    Gone,
    /// A file of ours could not be written.
    #[error("the edge's files cannot be written")]
    Disk {
        /// What the file system said.
        #[from]
        source: files::Error,
    },
    /// A file or directory of ours could not be read or removed.
    #[error("{path} cannot be read or removed")]
    File {
        /// Which.
        path: String,
        /// What the file system said.
        source: std::io::Error,
    },
    /// The reload command did not succeed.
    #[error("the reload command `{command}` failed: {why}")]
    Reload {
        /// The command.
        command: String,
        /// How it ended and what it said.
        why: String,
    },
    /// The agent changes nothing here.
    #[error("this agent only observes; it changes nothing")]
    ObserveOnly,
    /// The process is ending.
    #[error("the process is ending")]
    Stopped,
    /// What the agent was told cannot be used.
    #[error("{0}")]
    Unconfigurable(String),
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
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Busy { .. }
                | Self::Timeout(_)
                | Self::Unregistered
                | Self::TokenRefused { .. }
        )
    }

    /// For how long the control plane wants to be left alone, if it said so; never for so long that the edge would count as gone.
    #[must_use]
    pub fn asked_rest(&self) -> Option<Duration> {
        match self {
            Self::Busy { after, .. } => Some((*after).min(LONGEST_ASKED)),
            _ => None,
        }
    }

    /// As it is reported: a stable code, and the whole chain of causes.
    #[must_use]
    pub fn note(&self) -> Note {
        Note::new(self.code(), chain(self))
    }

    /// Stable, for programs.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::RevisionGone => "edge-revision-gone",
            Self::Unregistered => "edge-unregistered",
            Self::Unavailable { .. } | Self::Busy { .. } | Self::Timeout(_) => {
                "edge-control-plane-unreachable"
            }
            Self::TokenRefused { .. } => "edge-token-refused",
            Self::Refused { .. } => "edge-control-plane-refused",
            Self::Unusable { .. } | Self::Damaged { .. } => UNUSABLE,
            Self::Unseen { .. } => "edge-handshake-failed",
            Self::ProxyDown { .. } => PROXY_DOWN,
            Self::ChainIncomplete { .. } => "edge-chain-incomplete",
            Self::Listen { .. } => "edge-cannot-listen",
            Self::BadUpstream(_) | Self::Client { .. } => "edge-upstream",
            Self::Nonsense(_) => "edge-control-plane-nonsense",
            Self::WentBack { .. } => "edge-revision-went-back",
            Self::ListingShrank { .. } => "listing-shrank",
            Self::Proxy { .. } => "edge-proxy-unreachable",
            Self::ProxyRefused { .. } => "edge-proxy-refused",
            Self::TransactionLocked { .. } => "edge-transaction-locked",
            Self::TransactionCrossed { .. } => "edge-transaction-crossed",
            Self::CertificatesLocked => "edge-certificates-locked",
            Self::PayloadTooLarge { .. } => "payload-too-large",
            Self::CrtListUnknown { .. } => "edge-crt-list-unknown",
            Self::Shadowed { .. } => "edge-shadowed",
            Self::NotOurs { .. } => "edge-file-not-ours",
            Self::StillUsed { .. } => "edge-still-configured",
            Self::NotAdoptable { .. } => "edge-not-adoptable",
            Self::Gone => "edge-certificate-gone",
            Self::Disk { .. } | Self::File { .. } => "edge-disk",
            Self::Reload { .. } => "edge-reload-failed",
            Self::ObserveOnly => "edge-observes-only",
            Self::Stopped => "edge-stopped",
            Self::Unconfigurable(_) => "edge-configuration",
            Self::Tls { .. } => "edge-tls",
        }
    }
}

impl Error {
    /// Is it that nothing can be written below this directory, whatever the file?
    pub(crate) fn is_disk_of(&self, directory: &Path) -> bool {
        use std::io::ErrorKind::{
            PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        };
        let (path, kind) = match self {
            Self::File { path, source } => (Path::new(path), source.kind()),
            Self::Disk { source: files::Error::Write { path, source } } => {
                (path.as_path(), source.kind())
            }
            _ => return false,
        };
        let kinds = [PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull];
        path.parent() == Some(directory) && kinds.contains(&kind)
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
