//! A network for development and tests, in one process: an ACME certificate authority and the DNS zone that it
//! believes. **Holdfast DEVELOPMENT CA – do not trust**: it certifies whatever its own zone says.
//!
//! ```no_run
//! # async fn run() -> Result<(), holdfast_devnet::Error> {
//! use holdfast_devnet::{Devnet, DevnetConfig};
//!
//! let net = Devnet::start(DevnetConfig { http_port: 8680, ..DevnetConfig::default() }).await?;
//! net.zone().set("shop.test", "A", "127.0.0.2").ok();
//! net.faults().set("bad-nonce", "10%", None).ok();
//! println!("{} trusts {}", net.directory_url(), net.root_pem());
//! net.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # The CA
//!
//! RFC 8555, RFC 8737 (TLS-ALPN-01), RFC 8659 and 8657 (CAA, as `ca.holdfast.test`), RFC 9773 (ARI), profiles. It is strict:
//! what a public CA would refuse, it refuses. A name is proven by really asking: DNS-01 by queries to the zone, HTTP-01
//! and TLS-ALPN-01 at the address the zone gives, on [`DevnetConfig::http_port`] and [`DevnetConfig::tls_port`]. There is no
//! delay that nobody asked for: finalizing answers `valid` at once unless the fault `processing` is on, and there is
//! a `Retry-After` only while a fault makes waiting necessary.
//!
//! With [`DevnetConfig::data`] it goes on after a restart, also after a kill: `DIR/dev-ca.pem` is the root of what it issues and of
//! its own TLS, `DIR/devnet/authority.json` holds its keys, `DIR/devnet/journal.jsonl` accounts, orders, authorizations,
//! certificates, zone records and renewal windows. Faults are forgotten. Its URLs hold its port: an account goes on
//! only on the same one.
//!
//! # The zone
//!
//! Authoritative for `.test`, over UDP and TCP on one port, every TTL 0. Every name is a CNAME to `edge.holdfast.test`, and that is
//! [`DevnetConfig::edge`], until it is set. Types: `A`, `AAAA`, `TXT`, `CAA`, `NS` (several values append), `CNAME` (stands
//! alone: it replaces what was there, and is replaced by what comes), and `NONE` (does not exist, nor does
//! anything below it that is not set), `SERVFAIL`, `REFUSED`, `TIMEOUT`, each with the value `-`. `*.NAME` speaks for what is
//! below. A name elsewhere is refused unless it, or something above or below it, is set.
//!
//! # Control
//!
//! On the CA's own listener, without signatures, never touched by faults. Bodies are JSON whatever their content type. What is refused is
//! answered 400 with `application/problem+json`, whose `detail` says why. Times are RFC 3339.
//!
//! | request | does |
//! |---|---|
//! | `GET /dev/orders[?name=N][&status=S]` | orders, oldest first: `[{id, url, names, status, profile, replaces, account, finalized, finalize_refused, certificate, error, created, expires}]` |
//! | `GET /dev/accounts` | `[{id, url, status, contact, thumbprint, external, created}]` |
//! | `GET /dev/certificates[?name=N]` | `[{serial, id, sha256, names, account, order, not_before, not_after, revoked: {at, reason}\|null, replaced_by}]`; `id` is ARI's |
//! | `GET /dev/root` | the root certificate, PEM |
//! | `GET /dev/dns` · `GET /dev/dns/{name}` | what was set: `[{name, type, value}]` |
//! | `PUT /dev/dns` `{name, type, value}` | sets a record; 204 |
//! | `DELETE /dev/dns/{name}` · `DELETE /dev/dns` | clears a name, or all; 204 |
//! | `GET /dev/faults` | `{faults: [{kind, value, times_left, struck}], kinds: [{kind, takes, description}]}` |
//! | `PUT /dev/faults/{kind}` `{value, times?}` | switches a fault on, for `times` occurrences if given; 204 |
//! | `DELETE /dev/faults/{kind}` · `DELETE /dev/faults` | switches it off, or all; 204 |
//! | `GET /dev/ari` | windows set by hand: `{TARGET: {start, end, explanation_url?, retry_after?}}` |
//! | `PUT /dev/ari/{target}` `{start, end, explanation_url?, retry_after?}` | sets a renewal window; the target is a certificate's `id`, a name, or `*`; 204 |
//! | `DELETE /dev/ari/{target}` · `DELETE /dev/ari` | clears it, or all; 204 |
//!
//! In an order, `finalized` counts the requests to finalize it that were accepted, and those that came when it was already `processing` or
//! `valid`: more than 1 means that a client finalized twice. `finalize_refused` counts those refused for another reason (not ready
//! yet, a bad CSR).
//!
//! # Faults
//!
//! A value is always text. A rate is spread evenly: `0.25` is every fourth request. Names are separated by commas; `*.shop.test`
//! is everything below, `*` is everything.
//!
//! | kind | value | does |
//! |---|---|---|
//! | `bad-nonce` | rate | signed requests are refused with badNonce |
//! | `server-error` | rate | ACME requests are answered 500 and not processed |
//! | `dropped-reply` | rate | signed requests are processed, then the connection closes (HTTP/2: the stream is reset) with no answer |
//! | `unavailable` | seconds | every ACME request is answered 503 with this Retry-After |
//! | `slow-request` | ms | every ACME request takes this much longer |
//! | `order-limit` | `ORDERS/SECONDS` | new orders of an account past the limit (a bucket that refills evenly) are answered 429 rateLimited in Boulder's words, with Retry-After; those with `replaces` are exempt, as from the other limits of certificates |
//! | `failed-authorizations` | names | new orders are answered 429 rateLimited in Boulder's words, Retry-After 720 |
//! | `exact-set-limit` | names | the same for certificates of the exact set, Retry-After 120960 |
//! | `registered-domain-limit` | names | the same for certificates of the registered domain, also for all names below, Retry-After 12096 |
//! | `paused-name` | names | the same for a paused name: no Retry-After, and the address at which a person unpauses it |
//! | `unknown-limit` | names | the same in words that no client knows, without Retry-After |
//! | `challenge-limit` | names | the challenge is answered 429 rateLimited in Google's words: over quota, try again in 2 s |
//! | `address-limit` | rate | ACME requests are answered 429 with an HTML page, as by the nginx before ZeroSSL |
//! | `order-refused` | `STATUS` or `STATUS/SECONDS` | new orders are answered with this status and, if given, this Retry-After |
//! | `slow-validation` | ms | a challenge is looked at only after this time, with Retry-After meanwhile |
//! | `processing` | ms | a finalized order stays `processing` for this time, with Retry-After |
//! | `reject-identifier` | names | orders are refused with rejectedIdentifier |
//! | `caa` | names | validation fails as if a CAA record forbade it |
//! | `unauthorized` | names | validation fails as if the challenge's answer were wrong |
//! | `finalize-invalid` | names | the order becomes invalid when it is finalized |
//! | `finalize-error` | names | finalizing works but is answered 500 |
//! | `wrong-certificate` | names | the certificate issued is one for another name |
//! | `truncated-chain` | names | certificates are handed out without their intermediate |
//! | `web-page` | status | every ACME request is answered with this status (404) and a web page, and not processed |
//! | `action-required` | rate | new orders are refused with userActionRequired and a page to open |
//! | `no-challenges` | names | authorizations are shown without any challenge |
//! | `bad-csr` | names | finalizing is refused with badCSR, whatever the CSR |
//! | `foreign-certificate` | names | the certificate is signed by an authority that nobody knows |
//! | `self-signed` | names | the certificate names itself as its issuer, and comes alone |
//! | `expired-certificate` | names | the certificate ended a day ago |
//! | `early-certificate` | names | the certificate begins in a day |
//! | `dns-servfail` | names | the zone answers SERVFAIL |
//! | `dns-timeout` | names | the zone does not answer |
//! | `dns-wrong` | names | the zone answers with records that lead elsewhere (192.0.2.1, 2001:db8::1, …) |

mod ca;
mod clock;
mod config;
mod devnet;
mod error;
mod faults;
mod journal;
mod zone;

pub use self::ca::RenewalWindow;
pub use self::config::{DevnetConfig, ExternalAccount, Profile};
pub use self::devnet::{Devnet, ROOT_FILE};
pub use self::error::Error;
pub use self::faults::{Fault, FaultError, FaultKind, Faults};
pub use self::zone::{EDGE, Zone, ZoneError, ZoneRecord};
