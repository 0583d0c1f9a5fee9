//! The account: journaled with its key before the CA hears of it, registered once, shared by all replicas.
//!
//! Every step can be repeated: whoever journals second gets the first one's key, and a CA that is asked for an account
//! with a key it knows gives the same account again.

use std::sync::Arc;

use holdfast_gateway::point::Point;
use holdfast_model::cleaned;
use holdfast_store::{Account, AccountId, NewAccount};
use serde_json::{Map, Value, json};

use crate::directory::Directory;
use crate::jws::{Signer, SigningKey};
use crate::session::{Session, post};
use crate::sessions::Turn;
use crate::{Ca, Error};

impl Ca {
    /// The account, loaded or made once. Its row is there after the first call, even if the CA could not be asked.
    ///
    /// # Errors
    /// When the store or the CA fails or refuses, or the operator has not agreed to the CA's terms.
    pub async fn account(&self) -> Result<AccountId, Error> {
        let session = self.session().await?;
        self.check_profile(&session.directory)?;
        Ok(session.id)
    }

    pub(crate) async fn session(&self) -> Result<Arc<Session>, Error> {
        let sessions = &self.0.sessions;
        if let Some(session) = sessions.current().filter(|session| !session.is_old()) {
            return Ok(session);
        }
        let turn = sessions.turn().await;
        match sessions.current() {
            Some(session) if !session.is_old() => return Ok(session),
            Some(old) => return self.renewed(turn, old).await,
            None => {}
        }
        if let Some(failure) = turn.failed_meanwhile() {
            return Err(failure);
        }
        turn.end(self.open().await)
    }

    /// With the directory as it is today. One that cannot be read is no reason to stop.
    async fn renewed(&self, turn: Turn<'_>, old: Arc<Session>) -> Result<Arc<Session>, Error> {
        match self.open().await {
            Ok(session) => turn.end(Ok(session)),
            Err(error) => {
                let (directory, error) = (self.directory(), &error as &dyn std::error::Error);
                tracing::warn!(directory, error, "the directory was not read again");
                old.keep_for_now();
                Ok(old)
            }
        }
    }

    /// A session by the directory as it is now, where it leads elsewhere than the one that was used.
    pub(crate) async fn moved(&self, stale: &Arc<Session>) -> Option<Arc<Session>> {
        let turn = self.0.sessions.turn().await;
        if let Some(current) = self.0.sessions.current()
            && !Arc::ptr_eq(&current, stale)
        {
            return Some(current);
        }
        if !self.0.sessions.may_search() {
            return None;
        }
        let directory = Directory::read(&self.0.transport, self.directory()).await.ok()?;
        if !directory.leads_elsewhere_than(&stale.directory) {
            return None;
        }
        tracing::warn!(directory = self.directory(), "the CA has moved what its directory names");
        let session = self.open().await.ok()?;
        turn.end(Ok(session)).ok()
    }

    /// Another view of the account than `stale`, if there is one: someone else renewed it, or its key was changed,
    /// or, where the CA does not know it any more, it is registered anew with the same key.
    pub(crate) async fn reopened(
        &self,
        stale: &Arc<Session>,
        gone: bool,
    ) -> Result<Option<Arc<Session>>, Error> {
        let turn = self.0.sessions.turn().await;
        match self.0.sessions.current() {
            Some(current) if !Arc::ptr_eq(&current, stale) => return Ok(Some(current)),
            _ => {}
        }
        let stored = self.0.store.account(self.directory(), self.limits()).await?;
        if let Some(account) = stored.filter(|account| stale.is_of(account)) {
            if !gone {
                return Ok(None);
            }
            tracing::warn!(
                directory = self.directory(),
                account = stale.url,
                "the CA does not know the account any more; it is registered anew"
            );
            self.0.store.account_forgotten(account.id).await?;
        }
        turn.end(self.open().await).map(Some)
    }

    pub(crate) async fn open(&self) -> Result<Session, Error> {
        let account = self.journaled().await?;
        let directory = Directory::read(&self.0.transport, self.directory()).await?;
        self.note_terms(&directory).await?;
        let url = match self.askable(&account) {
            Some(url) => url,
            None => self.register(&directory, &account).await?,
        };
        let account = self.with_settled_key(&directory, &url, account).await?;
        let session = Session::new(&self.0.transport, directory, &account, url).await?;
        self.update_contact(&session, &account).await?;
        Ok(session)
    }

    /// The account's URL, unless an earlier release stored one that is not used: who registers the same key again gets it again.
    fn askable(&self, account: &Account) -> Option<String> {
        let url = account.url.clone()?;
        match self.0.transport.check_url(Point::ACME_ACCOUNT, &url) {
            Ok(()) => Some(url),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the CA is asked for the account's URL again");
                None
            }
        }
    }

    async fn journaled(&self) -> Result<Account, Error> {
        let (store, config) = (&self.0.store, &self.0.config);
        if let Some(account) = store.account(&config.directory, config.limits).await? {
            return Ok(account);
        }
        let new = NewAccount {
            directory: config.directory.clone(),
            key: SigningKey::generate()?,
            email: config.email.clone(),
        };
        Ok(store.journal_account(&new).await?)
    }

    async fn register(&self, directory: &Directory, account: &Account) -> Result<String, Error> {
        let config = &self.0.config;
        let key = SigningKey::from_pkcs8_der(&account.key)?;
        let request = self.registration(directory, &key)?;
        let (at, url) = (Point::ACME_NEW_ACCOUNT, &directory.new_account);
        let signer = (&key, Signer::Key);
        let answer = post(&self.0.transport, directory, at, url, signer, Some(&request)).await?;
        let url = answer.location()?;
        self.0.store.account_registered(account.id, &url, config.email.as_deref()).await?;
        tracing::info!(directory = config.directory, account = url, "registered at the CA");
        Ok(url)
    }

    fn registration(&self, directory: &Directory, key: &SigningKey) -> Result<Value, Error> {
        let config = &self.0.config;
        let mut request = Map::new();
        match &directory.meta.terms_of_service {
            Some(terms) if !config.agree_terms => {
                let (directory, terms) = (config.directory.clone(), terms.clone());
                return Err(Error::TermsNotAgreed { directory, terms });
            }
            _ if config.agree_terms => {
                request.insert("termsOfServiceAgreed".to_owned(), true.into());
            }
            _ => {}
        }
        if config.email.is_some() {
            request.insert("contact".to_owned(), contact(config.email.as_deref()));
        }
        match &config.eab {
            Some(eab) => {
                let binding = eab.bind(key, &directory.new_account)?;
                request.insert("externalAccountBinding".to_owned(), binding);
            }
            None if directory.meta.external_account_required => {
                return Err(Error::ExternalAccountRequired(config.directory.clone()));
            }
            None => {}
        }
        Ok(request.into())
    }

    /// Remembers the terms, so that `doctor` can show them and an agreement has a date.
    async fn note_terms(&self, directory: &Directory) -> Result<(), Error> {
        let Some(url) = directory.meta.terms_of_service.as_deref() else { return Ok(()) };
        let (store, agreed) = (&self.0.store, self.0.config.agree_terms);
        // The CA may send anything in place of a URL.
        let url = cleaned(url.to_owned(), 2_000);
        let known = store.terms(self.directory()).await?;
        let is_known = known
            .as_ref()
            .is_some_and(|terms| terms.url == url && (!agreed || terms.agreed_at.is_some()));
        if let Some(before) = known.as_ref().filter(|terms| terms.url != url) {
            let (directory, before) = (self.directory(), before.url.as_str());
            tracing::warn!(directory, before, terms = url, "the CA has other terms of service");
        }
        if !is_known {
            store.keep_terms(self.directory(), &url, agreed).await?;
        }
        Ok(())
    }

    /// Tells the CA of another address to write to. An address it does not like is no reason to stop issuing.
    async fn update_contact(&self, session: &Session, account: &Account) -> Result<(), Error> {
        let email = self.0.config.email.as_deref();
        // The store takes none for "as it was": nobody to write to is an empty address there.
        let kept = email.unwrap_or_default();
        if account.email.as_deref().unwrap_or_default() == kept {
            return Ok(());
        }
        let request = json!({ "contact": contact(email) });
        match session.post(Point::ACME_ACCOUNT, &session.url, Some(&request)).await {
            Ok(_) => {
                Ok(self.0.store.account_registered(account.id, &session.url, Some(kept)).await?)
            }
            Err(Error::Refused(refusal)) => {
                tracing::warn!(
                    error = &*refusal as &dyn std::error::Error,
                    "[acme] email was not taken"
                );
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn contact(email: Option<&str>) -> Value {
    email.into_iter().map(|email| format!("mailto:{email}")).collect()
}
