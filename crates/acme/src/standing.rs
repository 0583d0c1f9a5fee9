//! What the CA says of the account by the key that we have: a database restored from an old backup may hold a key that the CA
//! has replaced since, and an account can be deactivated.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use holdfast_gateway::point::Point;
use holdfast_model::Note;
use holdfast_store::AccountId;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::directory::Directory;
use crate::jws::{Signer, SigningKey};
use crate::session::{Session, post};
use crate::{Ca, Error};

/// How often at most an account that is accepted is noted as such: orders are many.
const ACCEPTED_EVERY: Duration = Duration::from_secs(60);

/// What the CA says against the account.
enum Objection {
    /// It knows the account by another URL: the one that we have was wrong.
    KnownAs(String),
    /// It does not take the key for it.
    Because(String),
}

/// How the account stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// There is none yet: the first order makes one.
    None,
    /// The CA takes its signature.
    Usable,
    /// The CA does not, and will not; why.
    Unusable(Note),
}

#[derive(Deserialize)]
struct AccountAnswer {
    status: String,
}

impl Ca {
    /// Asks the CA for the account by the key that is stored, and keeps what it says of it.
    ///
    /// # Errors
    /// When the store fails, or the CA could not be asked.
    pub async fn standing(&self) -> Result<Standing, Error> {
        let config = &self.0.config;
        let stored = self.0.store.account(&config.directory, config.limits).await?;
        let Some((account, url)) = stored.and_then(|account| Some((account.clone(), account.url?)))
        else {
            return Ok(Standing::None);
        };
        let directory = Directory::read(&self.0.transport, self.directory()).await?;
        // A change of the key may have been broken off on either side of the CA's answer.
        let mut reason = String::new();
        for key in std::iter::once(&account.key).chain(&account.next_key) {
            match self.objection(&directory, &url, &SigningKey::from_pkcs8_der(key)?).await? {
                None => {
                    self.0.store.mark_account(account.id, None).await?;
                    return Ok(Standing::Usable);
                }
                Some(Objection::KnownAs(other)) if *key == account.key => {
                    self.known_as(account.id, &url, &other).await?;
                    return Ok(Standing::Usable);
                }
                Some(Objection::KnownAs(other)) => {
                    reason = format!("its next key is that of another account, {other}");
                }
                Some(Objection::Because(why)) => reason = why,
            }
        }
        let note = self.unusable(&url, reason).class().note().clone();
        self.0.store.mark_account(account.id, Some(&note.detail)).await?;
        Ok(Standing::Unusable(note))
    }

    /// Makes a new account with a new key, in place of one that cannot be used. The new key is stored before the CA hears of it:
    /// what breaks off is completed by the next start, or by asking again.
    ///
    /// # Errors
    /// When the account can be used, or the store or the CA fails or refuses.
    pub async fn register_anew(&self) -> Result<(), Error> {
        let standing = self.standing().await?;
        if standing == Standing::Usable {
            return Err(Error::AccountUsable(self.directory().to_owned()));
        }
        let turn = self.0.sessions.turn().await;
        if let (Standing::Unusable(_), Some(account)) =
            (standing, self.0.store.account(self.directory(), self.limits()).await?)
        {
            self.0.store.journal_next_key(account.id, &SigningKey::generate()?).await?;
            self.0.store.account_key_changed(account.id).await?;
            self.0.store.account_forgotten(account.id).await?;
        }
        turn.end(self.open().await).map(drop)
    }

    /// An error that cast doubt on the account: is it the account that is at fault? Gives a session to ask again with, if it was
    /// only its URL.
    pub(crate) async fn blamed(
        &self,
        session: &Arc<Session>,
        error: Error,
    ) -> Result<Arc<Session>, Error> {
        match self.objection(&session.directory, &session.url, &session.key).await {
            Ok(Some(Objection::KnownAs(other))) => {
                self.known_as(session.id, &session.url, &other).await?;
                self.0.sessions.end(session);
                self.session().await
            }
            Ok(Some(Objection::Because(reason))) => {
                let error = self.unusable(&session.url, reason);
                self.mark(session.id, Some(&error.class().note().detail)).await;
                Err(error)
            }
            // It stands, or the CA could not be asked.
            Ok(None) | Err(_) => Err(error),
        }
    }

    /// A key belongs to one account: the URL that the CA gives for it now is right, whatever it gave at registration.
    async fn known_as(&self, id: AccountId, was: &str, url: &str) -> Result<(), Error> {
        tracing::warn!(was, account = url, "the CA knows the account by another URL");
        Ok(self.0.store.account_registered(id, url, None).await?)
    }

    /// The CA has just done something in the account's name: whatever was said of it before, and by whichever replica, is over.
    pub(crate) async fn accepted(&self, id: AccountId) {
        let due = {
            let mut accepted = self.0.accepted_at.lock().unwrap_or_else(PoisonError::into_inner);
            let due = accepted.is_none_or(|at| at.elapsed() >= ACCEPTED_EVERY);
            due.then(|| *accepted = Some(Instant::now())).is_some()
        };
        if due {
            self.mark(id, None).await;
        }
    }

    async fn mark(&self, id: AccountId, unusable: Option<&str>) {
        if unusable.is_some() {
            *self.0.accepted_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if let Err(error) = self.0.store.mark_account(id, unusable).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "how the CA takes the account was not kept"
            );
        }
    }

    fn unusable(&self, url: &str, reason: String) -> Error {
        let directory = self.directory().to_owned();
        Error::AccountUnusable { directory, account: url.to_owned(), reason }
    }

    /// Why the CA does not take this key for that account; none where it does.
    async fn objection(
        &self,
        directory: &Directory,
        url: &str,
        key: &SigningKey,
    ) -> Result<Option<Objection>, Error> {
        let because = |reason: String| Ok(Some(Objection::Because(reason)));
        let question = json!({ "onlyReturnExisting": true });
        let (at, signer) = (Point::ACME_ACCOUNT, (key, Signer::Key));
        let ask =
            post(&self.0.transport, directory, at, &directory.new_account, signer, Some(&question));
        match ask.await {
            Ok(answer) => {
                let account = serde_json::from_slice::<AccountAnswer>(&answer.body).ok();
                match account.map(|account| account.status).filter(|said| said != "valid") {
                    Some(said) => because(format!("it is {said}")),
                    None => {
                        let known = answer.location()?;
                        Ok((known != url).then_some(Objection::KnownAs(known)))
                    }
                }
            }
            Err(error) if error.is("accountDoesNotExist") => {
                because("it knows no account by the key that is stored".to_owned())
            }
            Err(Error::Refused(refusal)) if refusal.problem.kind == "unauthorized" => {
                because(refusal.problem.to_string())
            }
            Err(error) => Err(error),
        }
    }
}
