//! How a development network is set up.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How a development network is set up. `DevnetConfig::default()` listens on free ports and keeps nothing.
#[derive(Clone, Debug)]
pub struct DevnetConfig {
    /// Where the CA listens; port 0 is any.
    pub ca: SocketAddr,
    /// Where the DNS zone listens, UDP and TCP; port 0 is any.
    pub dns: SocketAddr,
    /// Where HTTP-01 is fetched, at the address the zone gives.
    pub http_port: u16,
    /// Where TLS-ALPN-01 is asked, at the address the zone gives.
    pub tls_port: u16,
    /// The directory to keep keys and state in, so that a restart goes on; without it all is forgotten.
    pub data: Option<PathBuf>,
    /// The addresses of `edge.holdfast.test`.
    pub edge: Vec<IpAddr>,
    /// The host in the CA's URLs; without it the address it listens on.
    pub host: Option<String>,
    /// The beginning of the CA's URLs (`https://127.0.0.1:4000`), where a proxy stands before it; without it the host and the
    /// port it listens on.
    pub base: Option<String>,
    /// Whether a new account must agree to the terms of service.
    pub terms: bool,
    /// Keys for external account binding.
    pub external_accounts: Vec<ExternalAccount>,
    /// Whether a new account must be bound to an external one.
    pub external_account_required: bool,
    /// What certificates can be ordered; the first is what an order gets that names none.
    pub profiles: Vec<Profile>,
    /// Whether the same order again is the pending or ready one that is already there, as at Let's Encrypt.
    pub reuse_orders: bool,
    /// Whether an account's valid authorization serves its further orders.
    pub reuse_authorizations: bool,
    /// How long an order, and each of its pending authorizations, may wait.
    pub order_lifetime: Duration,
    /// How long looking at one challenge may take.
    pub validation_limit: Duration,
    /// How many orders are kept, with what belongs to them: beyond it the oldest that have ended are forgotten. Certificates
    /// stay known, for renewal and revocation, and are no longer handed out.
    pub orders_kept: Option<usize>,
}

impl Default for DevnetConfig {
    fn default() -> Self {
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        Self {
            ca: any,
            dns: any,
            http_port: 8680,
            tls_port: 8643,
            data: None,
            edge: vec![Ipv4Addr::LOCALHOST.into()],
            host: None,
            base: None,
            terms: true,
            external_accounts: Vec::new(),
            external_account_required: false,
            profiles: Profile::standard(),
            reuse_orders: true,
            reuse_authorizations: false,
            order_lifetime: 7 * DAY,
            validation_limit: Duration::from_secs(10),
            orders_kept: None,
        }
    }
}

/// A kind of certificate that can be ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name in orders.
    pub name: String,
    /// What the directory says of it.
    pub description: String,
    /// How long its certificates are valid.
    pub lifetime: Duration,
}

impl Profile {
    /// A profile.
    pub fn new(name: &str, lifetime: Duration, description: &str) -> Self {
        Self { name: name.to_owned(), description: description.to_owned(), lifetime }
    }

    /// `default` (90 days), `tlsserver` (45 days), `shortlived` (160 hours) `seconds` (60 seconds) and `moments` (8 seconds).
    pub fn standard() -> Vec<Self> {
        vec![
            Self::new("default", 90 * DAY, "90 days"),
            Self::new("tlsserver", 45 * DAY, "45 days"),
            Self::new("shortlived", Duration::from_secs(160 * 60 * 60), "160 hours"),
            Self::new("seconds", Duration::from_secs(60), "60 seconds, for tests of renewal"),
            Self::new("moments", Duration::from_secs(8), "8 seconds"),
        ]
    }
}

/// A key for external account binding.
#[derive(Clone)]
pub struct ExternalAccount {
    /// The key's id.
    pub key_id: String,
    /// The key, as the base64url text that clients are configured with.
    pub hmac_key: String,
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
