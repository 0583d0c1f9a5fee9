//! A change of the account's key: the next key is sealed before the CA hears of it, and until the store says
//! that it is the key, every start asks the CA which of the two it knows.

use holdfast_gateway::point::Point;
use holdfast_store::{Account, Secret};
use serde_json::json;

use crate::directory::Directory;
use crate::jws::{Signer, SigningKey};
use crate::session::post;
use crate::{Ca, Error};

impl Ca {
    /// Changes the account's key. A change that was begun before, and broke off, is completed instead.
    ///
    /// # Errors
    /// When the store or the CA fails or refuses; the old key, or the change begun, stays.
    pub async fn change_key(&self) -> Result<(), Error> {
        let session = self.session().await?;
        let turn = self.0.sessions.turn().await;
        let next = self.0.store.journal_next_key(session.id, &SigningKey::generate()?).await?;
        self.settle_key(&session.directory, &session.url, &session.key, &next).await?;
        self.0.store.account_key_changed(session.id).await?;
        turn.end(self.open().await).map(drop)
    }

    /// The account with the key that the CA knows: completes a change that broke off.
    pub(crate) async fn with_settled_key(
        &self,
        directory: &Directory,
        url: &str,
        account: Account,
    ) -> Result<Account, Error> {
        let Some(next) = account.next_key.clone() else { return Ok(account) };
        let old = SigningKey::from_pkcs8_der(&account.key)?;
        match self.settle_key(directory, url, &old, &next).await {
            Ok(()) => {
                self.0.store.account_key_changed(account.id).await?;
                Ok(Account { key: next, next_key: None, ..account })
            }
            Err(Error::Refused(refusal)) => {
                tracing::warn!(
                    error = &*refusal as &dyn std::error::Error,
                    "the account keeps its key: the change that was begun is refused"
                );
                Ok(account)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the next key the account's, unless it is already.
    async fn settle_key(
        &self,
        directory: &Directory,
        account_url: &str,
        old: &SigningKey,
        next: &Secret,
    ) -> Result<(), Error> {
        let next = SigningKey::from_pkcs8_der(next)?;
        if self.is_known(directory, account_url, &next).await? {
            return Ok(());
        }
        let Some(url) = directory.key_change.as_deref() else {
            let directory = self.directory().to_owned();
            return Err(Error::Unsupported { directory, what: "a change of the account's key" });
        };
        let change = json!({ "account": account_url, "oldKey": old.jwk() });
        let change = next.sign(Signer::Key, url, None, Some(&change))?;
        let signer = (old, Signer::Account(account_url));
        let at = Point::ACME_KEY_CHANGE;
        post(&self.0.transport, directory, at, url, signer, Some(&change)).await?.done()
    }

    /// Is this the key of this account, as far as the CA knows?
    async fn is_known(
        &self,
        directory: &Directory,
        account_url: &str,
        key: &SigningKey,
    ) -> Result<bool, Error> {
        let (at, url) = (Point::ACME_ACCOUNT, &directory.new_account);
        let question = json!({ "onlyReturnExisting": true });
        let signer = (key, Signer::Key);
        match post(&self.0.transport, directory, at, url, signer, Some(&question)).await {
            Ok(answer) => Ok(answer.location()? == account_url),
            Err(error) if error.is("accountDoesNotExist") => Ok(false),
            Err(error) => Err(error),
        }
    }
}
