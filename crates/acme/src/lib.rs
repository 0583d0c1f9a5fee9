//! One conversation with one CA, over instant-acme and our own HTTP client.
//!
//! Everything the CA says is kept in its own words; [`Error::class`] says what it amounts to. Keys are sealed in the
//! store before the CA hears of them. Nothing here waits, retries for long or knows a domain's state: that is the
//! engine's and the table's business. What no part of this crate may do is finalize without having read the order.

mod account;
mod account_key;
mod authorization;
mod ca;
pub mod certificate;
mod class;
mod config;
mod directory;
mod error;
mod jws;
mod key_change;
mod open_orders;
mod order;
mod problem;
mod refusal;
mod renewal;
mod request;
mod revocation;
mod scope;
mod session;
mod sessions;
mod standing;
mod status;
mod transport;
mod trust;

pub use account_key::account_key;
pub use ca::Ca;
pub use class::Class;
pub use config::{CaConfig, Eab, KeyType, UnknownKeyType};
pub use error::{Error, Stuck};
pub use holdfast_model::WaitScope;
pub use problem::{Problem, Subproblem};
pub use refusal::Refusal;
pub use request::key_and_csr;
pub use standing::Standing;
pub use status::{NewOrder, OrderStatus, Proof, Verdict, Window};
pub use transport::BadUrl;
pub use trust::check_issuer_roots;
