//! What a request is about, by its path at the embedded CA or at Pebble.

/// What a request to a CA is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// The directory.
    Directory,
    /// newNonce.
    NewNonce,
    /// newAccount, which also answers for an account that exists.
    NewAccount,
    /// An account.
    Account,
    /// keyChange.
    KeyChange,
    /// newOrder.
    NewOrder,
    /// An order, read.
    Order,
    /// An authorization.
    Authorization,
    /// A challenge.
    Challenge,
    /// An order, finalized.
    Finalize,
    /// A certificate, downloaded.
    Certificate,
    /// revokeCert.
    Revoke,
    /// renewalInfo.
    RenewalInfo,
    /// Anything else.
    Other,
}

/// The beginnings of paths, the longer ones before those that they begin with.
const PATHS: &[(&str, Endpoint)] = &[
    ("/directory", Endpoint::Directory),
    ("/dir", Endpoint::Directory),
    ("/acme/new-nonce", Endpoint::NewNonce),
    ("/nonce-plz", Endpoint::NewNonce),
    ("/acme/new-account", Endpoint::NewAccount),
    ("/sign-me-up", Endpoint::NewAccount),
    ("/acme/account/", Endpoint::Account),
    ("/my-account/", Endpoint::Account),
    ("/acme/key-change", Endpoint::KeyChange),
    ("/rollover-account-key", Endpoint::KeyChange),
    ("/acme/new-order", Endpoint::NewOrder),
    ("/order-plz", Endpoint::NewOrder),
    ("/acme/order/", Endpoint::Order),
    ("/my-order/", Endpoint::Order),
    ("/finalize-order/", Endpoint::Finalize),
    ("/acme/authorization/", Endpoint::Authorization),
    ("/authZ/", Endpoint::Authorization),
    ("/acme/challenge/", Endpoint::Challenge),
    ("/chalZ/", Endpoint::Challenge),
    ("/acme/certificate/", Endpoint::Certificate),
    ("/certZ/", Endpoint::Certificate),
    ("/acme/revoke", Endpoint::Revoke),
    ("/revoke-cert", Endpoint::Revoke),
    ("/acme/renewal-info/", Endpoint::RenewalInfo),
    ("/draft-ietf-acme-ari-03/renewalInfo/", Endpoint::RenewalInfo),
];

impl Endpoint {
    pub(super) fn of(path: &str) -> Self {
        if path.starts_with("/acme/order/") && path.ends_with("/finalize") {
            return Self::Finalize;
        }
        let found = PATHS.iter().find(|(begins, _)| path.starts_with(begins));
        found.map_or(Self::Other, |(_, endpoint)| *endpoint)
    }
}
