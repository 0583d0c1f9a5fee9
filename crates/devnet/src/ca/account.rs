//! Accounts: registration, contacts, deactivation, their orders (RFC 8555, sections 7.1.2 and 7.3).

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{LINK, LOCATION};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::Ca;
use super::external;
use super::id::new_id;
use super::jwk::Jwk;
use super::problem::{Kind, Problem};
use super::request::{ByAccount, ByKey};
use super::shelf::Row;
use crate::clock;

/// How many orders one page of the list has.
const PAGE: usize = 100;

/// How many contacts an account may have.
const CONTACTS: usize = 10;

/// Whether an account may still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AccountStatus {
    Valid,
    Deactivated,
}

/// An account.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) status: AccountStatus,
    pub(crate) key: Jwk,
    pub(crate) contact: Vec<String>,
    pub(crate) terms_agreed: bool,
    pub(crate) external_account: Option<Value>,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) created: OffsetDateTime,
}

impl Row for Account {
    const KIND: &'static str = "account";

    fn id(&self) -> &str {
        &self.id
    }
}

impl Account {
    fn json(&self, ca: &Ca) -> Value {
        let mut object = json!({
            "status": self.status,
            "contact": self.contact,
            "termsOfServiceAgreed": self.terms_agreed,
            "orders": ca.url(&format!("/acme/account/{}/orders", self.id)),
        });
        if let (Some(binding), Some(members)) = (&self.external_account, object.as_object_mut()) {
            members.insert("externalAccountBinding".to_owned(), binding.clone());
        }
        object
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewAccount {
    #[serde(default)]
    contact: Vec<String>,
    #[serde(default)]
    terms_of_service_agreed: bool,
    #[serde(default)]
    only_return_existing: bool,
    external_account_binding: Option<Value>,
}

/// newAccount.
pub(crate) async fn create(State(ca): State<Arc<Ca>>, request: ByKey) -> Result<Response, Problem> {
    let asked: NewAccount = request.payload.json()?;
    let thumbprint = request.key.thumbprint();
    if let Some(id) = ca.index.account(&thumbprint) {
        return existing(&ca, &id);
    }
    if asked.only_return_existing {
        return Err(Problem::new(Kind::AccountDoesNotExist, "no account has this key"));
    }
    check_contacts(&asked.contact)?;
    check_terms(&ca, asked.terms_of_service_agreed)?;
    external::check(&ca, asked.external_account_binding.as_ref(), &request.key, &request.url)?;
    let account = Account {
        id: new_id(),
        status: AccountStatus::Valid,
        key: request.key,
        contact: asked.contact,
        terms_agreed: asked.terms_of_service_agreed,
        external_account: asked.external_account_binding,
        created: clock::now(),
    };
    let (id, object) = (account.id.clone(), account.json(&ca));
    // Of several requests with one key at once, one makes the account and all get it.
    let holder = ca.index.register(&thumbprint, &id, || ca.accounts.add(account));
    if holder != id {
        return existing(&ca, &holder);
    }
    tracing::info!(account = id, "development CA: account created");
    Ok((StatusCode::CREATED, [(LOCATION, ca.account_url(&id))], Json(object)).into_response())
}

fn existing(ca: &Ca, id: &str) -> Result<Response, Problem> {
    let found = ca.accounts.read(id, |account| (account.status, account.json(ca)));
    let (status, object) = found.ok_or_else(|| Problem::not_found("account"))?;
    if status != AccountStatus::Valid {
        return Err(Problem::unauthorized("the account of this key is deactivated")
            .with_status(StatusCode::UNAUTHORIZED));
    }
    Ok((StatusCode::OK, [(LOCATION, ca.account_url(id))], Json(object)).into_response())
}

#[derive(Deserialize)]
struct Change {
    contact: Option<Vec<String>>,
    status: Option<String>,
}

impl Ca {
    /// Deactivates every account, as a CA may that finds a key in the wrong hands.
    pub(crate) fn deactivate_accounts(&self) {
        let ids = self.accounts.collect(|account| Some(account.id.clone()));
        for id in ids {
            self.accounts.update(&id, |account| account.status = AccountStatus::Deactivated);
        }
    }
}

/// Reads, changes or deactivates an account.
pub(crate) async fn update(
    State(ca): State<Arc<Ca>>,
    Path(id): Path<String>,
    request: ByAccount,
) -> Result<Response, Problem> {
    must_be_own(&request, &id)?;
    if !request.payload.is_empty() {
        let change: Change = request.payload.json()?;
        if let Some(contact) = &change.contact {
            check_contacts(contact)?;
        }
        let deactivates = match change.status.as_deref() {
            None | Some("valid") => false,
            Some("deactivated") => true,
            Some(other) => {
                return Err(Problem::malformed(format!("an account cannot become {other:?}")));
            }
        };
        ca.accounts.update(&id, |account| {
            account.contact = change.contact.unwrap_or_else(|| account.contact.clone());
            if deactivates {
                account.status = AccountStatus::Deactivated;
            }
        });
    }
    let object = ca.accounts.read(&id, |account| account.json(&ca));
    let object = object.ok_or_else(|| Problem::not_found("account"))?;
    Ok(([(LOCATION, ca.account_url(&id))], Json(object)).into_response())
}

#[derive(Deserialize)]
pub(crate) struct Page {
    #[serde(default)]
    cursor: usize,
}

/// The URLs of an account's orders that can still become something, a page at a time.
pub(crate) async fn orders(
    State(ca): State<Arc<Ca>>,
    Path(id): Path<String>,
    Query(Page { cursor }): Query<Page>,
    request: ByAccount,
) -> Result<Response, Problem> {
    must_be_own(&request, &id)?;
    request.payload.must_be_empty()?;
    let orders = ca.orders.collect(|order| {
        let listed = order.account == id && order.is_alive(&ca);
        listed.then(|| ca.order_url(&order.id))
    });
    let page: Vec<&String> = orders.iter().skip(cursor).take(PAGE).collect();
    let mut response = Json(json!({ "orders": page })).into_response();
    let next = cursor.saturating_add(PAGE);
    if next < orders.len() {
        let url = ca.url(&format!("/acme/account/{id}/orders?cursor={next}"));
        super::append(&mut response, LINK, &format!("<{url}>;rel=\"next\""));
    }
    Ok(response)
}

fn must_be_own(request: &ByAccount, id: &str) -> Result<(), Problem> {
    match request.account == id {
        true => Ok(()),
        false => Err(Problem::unauthorized("this is another account")),
    }
}

fn check_terms(ca: &Ca, agreed: bool) -> Result<(), Problem> {
    if agreed || !ca.settings.terms {
        return Ok(());
    }
    let problem = Problem::new(
        Kind::UserActionRequired,
        "the terms of service must be agreed to: termsOfServiceAgreed must be true",
    );
    Err(problem.with_link(&ca.url("/terms"), "terms-of-service"))
}

fn check_contacts(contacts: &[String]) -> Result<(), Problem> {
    if contacts.len() > CONTACTS {
        let detail = format!("an account has at most {CONTACTS} contacts");
        return Err(Problem::new(Kind::InvalidContact, detail));
    }
    contacts.iter().try_for_each(|contact| check_contact(contact))
}

fn check_contact(contact: &str) -> Result<(), Problem> {
    let Some(address) = contact.strip_prefix("mailto:") else {
        let detail = format!("{contact:?} cannot be a contact here: only mailto: is");
        return Err(Problem::new(Kind::UnsupportedContact, detail));
    };
    let plausible = address.split_once('@').is_some_and(|(local, host)| {
        let labels = host.split('.').filter(|label| !label.is_empty()).count();
        !local.is_empty()
            && labels >= 2
            && labels == host.split('.').count()
            && !address.contains(['?', ',', ' ', '"', '<', '>'])
            && address.is_ascii()
            && address.matches('@').count() == 1
    });
    match plausible {
        true => Ok(()),
        false => {
            let detail = format!("{contact:?} is not one plain mail address");
            Err(Problem::new(Kind::InvalidContact, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_are_single_mail_addresses() {
        assert_eq!(check_contact("mailto:ops@shop.test"), Ok(()));
        for bad in [
            "mailto:",
            "mailto:a@b",
            "mailto:a@b.test,c@d.test",
            "mailto:a@b.test?subject=x",
            "mailto:@b.test",
            "mailto:a@b..test",
            "mailto:a b@c.test",
        ] {
            assert!(check_contact(bad).is_err(), "{bad}");
        }
        assert!(check_contact("tel:+123").is_err());
        assert!(check_contacts(&vec!["mailto:a@b.test".to_owned(); 11]).is_err());
    }
}
