//! The account as this process uses it: its key, its URL, the CA's directory, and the orders it has open here.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdfast_gateway::point::Point;
use holdfast_store::{Account, AccountId, Secret};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Error;
use crate::directory::Directory;
use crate::jws::{Signer, SigningKey, encode};
use crate::open_orders::OpenOrders;
use crate::transport::{Answer, Transport, malformed};

/// A nonce may be refused at random, or because the CA was restarted: a few in a row say nothing.
const NONCE_ATTEMPTS: usize = 12;

/// Places and terms change now and then.
const DIRECTORY_GOOD_FOR: Duration = Duration::from_secs(24 * 3600);

/// When it is tried again where the directory could not be read.
const DIRECTORY_ASKED_AGAIN: Duration = Duration::from_secs(600);

pub(crate) struct Session {
    pub(crate) id: AccountId,
    pub(crate) url: String,
    pub(crate) key: SigningKey,
    pub(crate) key_der: Secret,
    pub(crate) directory: Directory,
    pub(crate) transport: Transport,
    pub(crate) acme: instant_acme::Account,
    pub(crate) orders: OpenOrders,
    /// When its directory is read again.
    refresh_at: Mutex<Instant>,
}

impl Session {
    /// For an account that the CA knows.
    pub(crate) async fn new(
        transport: &Transport,
        directory: Directory,
        account: &Account,
        url: String,
    ) -> Result<Self, Error> {
        let credentials = json!({
            "id": url,
            "key_pkcs8": encode(account.key.expose()),
            "urls": directory.for_instant_acme(),
        });
        let credentials = serde_json::from_value(credentials)
            .map_err(|error| malformed(Point::ACME_DIRECTORY, &error.to_string()))?;
        let builder = instant_acme::Account::builder_with_http(Box::new(transport.clone()));
        let acme = builder
            .from_credentials(credentials)
            .await
            .map_err(|_| Error::Key("the stored account key is no ECDSA P-256 key"))?;
        Ok(Self {
            id: account.id,
            url,
            key: SigningKey::from_pkcs8_der(&account.key)?,
            key_der: account.key.clone(),
            directory,
            transport: transport.clone(),
            acme,
            orders: OpenOrders::default(),
            refresh_at: Mutex::new(Instant::now() + DIRECTORY_GOOD_FOR),
        })
    }

    /// Is it time to read the directory again?
    pub(crate) fn is_old(&self) -> bool {
        *self.refresh_at.lock().unwrap_or_else(PoisonError::into_inner) <= Instant::now()
    }

    /// The directory could not be read: this one is used for a while longer.
    pub(crate) fn keep_for_now(&self) {
        let at = Instant::now() + DIRECTORY_ASKED_AGAIN;
        *self.refresh_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Is this how the store has the account, with nothing begun?
    pub(crate) fn is_of(&self, account: &Account) -> bool {
        account.key == self.key_der
            && account.next_key.is_none()
            && account.url.as_deref() == Some(self.url.as_str())
    }

    /// Asks in the account's name; without a payload it reads.
    pub(crate) async fn post(
        &self,
        at: Point,
        url: &str,
        payload: Option<&Value>,
    ) -> Result<Answer, Error> {
        let signer = Signer::Account(&self.url);
        post(&self.transport, &self.directory, at, url, (&self.key, signer), payload).await
    }
}

/// Posts with a signature of our own making, with another nonce whenever that alone was refused.
pub(crate) async fn post(
    transport: &Transport,
    directory: &Directory,
    at: Point,
    url: &str,
    (key, signer): (&SigningKey, Signer<'_>),
    payload: Option<&Value>,
) -> Result<Answer, Error> {
    let mut attempt = 1;
    loop {
        let nonce = transport.nonce(&directory.new_nonce).await?;
        let jws = key.sign(signer, url, Some(&nonce), payload)?;
        match transport.post(at, url, jws.to_string().into_bytes()).await {
            Err(error) if error.is("badNonce") && attempt < NONCE_ATTEMPTS => attempt += 1,
            answered => return answered,
        }
    }
}
