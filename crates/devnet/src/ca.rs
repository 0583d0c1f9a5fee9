//! The certificate authority: RFC 8555, strict, with faults on demand.
//!
//! All state is in memory, each object under a lock of its own that is never held over crypto or I/O; every
//! change is noted in the journal. A name is proven by really asking: the zone over DNS, the name's address over
//! HTTP or TLS. It stands outside the system under test and shares nothing with it.

mod account;
mod authority;
mod authorization;
mod certificate;
mod challenge;
mod control;
mod csr;
mod directory;
mod external;
mod finalize;
mod forget;
mod id;
mod index;
mod jwk;
mod jws;
mod key_change;
mod limit;
mod name;
mod new_order;
mod nonce;
mod order;
mod problem;
mod renewal;
mod request;
mod resolver;
mod revocation;
mod router;
mod serve;
mod shelf;
mod validation;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use axum::response::Response;
use http::{HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;

use self::account::{Account, AccountStatus};
pub(crate) use self::authority::{Authority, LABEL};
use self::authorization::{Authorization, AuthorizationStatus};
use self::certificate::Certificate;
use self::challenge::{ChallengeKind, ChallengeStatus};
use self::index::Index;
use self::jwk::Jwk;
use self::nonce::Nonces;
use self::order::{Order, Stage};
use self::problem::{Kind, Problem};
pub use self::renewal::RenewalWindow;
use self::renewal::Windows;
pub(crate) use self::resolver::Resolver;
pub(crate) use self::serve::serve;
use self::shelf::Shelf;
use crate::config::DevnetConfig;
use crate::faults::Faults;
use crate::journal::{Journal, Line};
use crate::zone::Zone;

/// The name by which CAA records call this CA.
pub(crate) const CAA_IDENTITY: &str = "ca.holdfast.test";

/// The authority and all it remembers.
pub(crate) struct Ca {
    pub(crate) settings: DevnetConfig,
    pub(crate) authority: Authority,
    pub(crate) zone: Zone,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) stop: CancellationToken,
    base: String,
    ports: (AtomicU16, AtomicU16),
    resolver: Resolver,
    nonces: Nonces,
    accounts: Shelf<Account>,
    orders: Shelf<Order>,
    authorizations: Shelf<Authorization>,
    certificates: Shelf<Certificate>,
    pub(crate) windows: Windows,
    index: Index,
}

/// What a CA is made of.
pub(crate) struct Parts<'a> {
    pub(crate) settings: DevnetConfig,
    pub(crate) authority: Authority,
    pub(crate) zone: Zone,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) lines: &'a [Line],
    pub(crate) resolver: Resolver,
    pub(crate) stop: CancellationToken,
    /// `https://HOST:PORT`.
    pub(crate) base: String,
}

impl Ca {
    /// Takes up what the journal remembers and goes on with it.
    pub(crate) fn start(parts: Parts<'_>) -> Arc<Self> {
        let Parts { journal, lines, settings, .. } = parts;
        let ca = Arc::new(Self {
            authority: parts.authority,
            zone: parts.zone,
            faults: parts.faults,
            stop: parts.stop,
            base: parts.base,
            ports: (settings.http_port.into(), settings.tls_port.into()),
            resolver: parts.resolver,
            nonces: Nonces::default(),
            accounts: Shelf::new(journal.clone(), lines),
            orders: Shelf::new(journal.clone(), lines),
            authorizations: Shelf::new(journal.clone(), lines),
            certificates: Shelf::new(journal.clone(), lines),
            windows: Windows::new(journal.clone(), lines),
            index: Index::default(),
            journal,
            settings,
        });
        ca.resume();
        ca
    }

    /// Rebuilds the index, and goes on with what was being worked on.
    fn resume(self: &Arc<Self>) {
        self.accounts.collect(|row| {
            self.index.register(&row.key.thumbprint(), &row.id, || {});
            None::<()>
        });
        let waiting = self.authorizations.collect(|row| {
            if row.status() == AuthorizationStatus::Valid {
                self.index.authorized(&row.account, &row.full_name(), &row.id);
            }
            let challenge =
                row.challenges.iter().find(|one| one.status == ChallengeStatus::Processing)?;
            Some((row.id.clone(), challenge.kind))
        });
        waiting.into_iter().for_each(|(id, kind)| validation::spawn(self, id, kind));
        self.index_certificates();
        let processing = self.orders.collect(|row| {
            self.index.ordered(Order::key(&row.account, &row.names, &row.profile), &row.id);
            matches!(row.stage, Stage::Processing { .. }).then(|| row.id.clone())
        });
        processing.into_iter().for_each(|id| finalize::resume(self, id));
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn account_url(&self, id: &str) -> String {
        self.url(&format!("/acme/account/{id}"))
    }

    fn order_url(&self, id: &str) -> String {
        self.url(&format!("/acme/order/{id}"))
    }

    fn authorization_url(&self, id: &str) -> String {
        self.url(&format!("/acme/authorization/{id}"))
    }

    fn challenge_url(&self, authorization: &str, kind: ChallengeKind) -> String {
        self.url(&format!("/acme/challenge/{authorization}/{}", kind.name()))
    }

    fn certificate_url(&self, serial: &str) -> String {
        self.url(&format!("/acme/certificate/{serial}"))
    }

    /// The account that a `kid` names.
    fn account_of(&self, kid: &str) -> Result<(String, Jwk, AccountStatus), Problem> {
        let id = kid.strip_prefix(&self.account_url("")).unwrap_or_default();
        let found = self
            .accounts
            .read(id, |account| (account.id.clone(), account.key.clone(), account.status));
        found.ok_or_else(|| {
            Problem::new(Kind::AccountDoesNotExist, format!("there is no account {kid:?}"))
        })
    }

    /// Remembers that a name is proven.
    fn note_authorized(&self, id: &str) {
        self.authorizations.read(id, |row| {
            if row.status() == AuthorizationStatus::Valid {
                self.index.authorized(&row.account, &row.full_name(), id);
            }
        });
    }

    fn http_port(&self) -> u16 {
        self.ports.0.load(Ordering::Relaxed)
    }

    fn tls_port(&self) -> u16 {
        self.ports.1.load(Ordering::Relaxed)
    }

    /// Looks at challenges on other ports from now on.
    pub(crate) fn set_ports(&self, http: u16, tls: u16) {
        self.ports.0.store(http, Ordering::Relaxed);
        self.ports.1.store(tls, Ordering::Relaxed);
    }
}

/// Adds a header to an answer.
fn append(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().append(name, value);
    }
}
