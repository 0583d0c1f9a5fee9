//! newOrder: what may be ordered, and whether the order is already there (RFC 8555, section 7.4; RFC 9773, section 5).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::authorization::Authorization;
use super::id::new_id;
use super::order::{Order, OrderStatus, Stage};
use super::problem::{Kind, Problem};
use super::request::ByAccount;
use super::{Ca, limit, name};
use crate::clock;
use crate::faults::FaultKind;

/// How many names one order may have.
const NAMES: usize = 100;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewOrder {
    identifiers: Vec<Identifier>,
    not_before: Option<Value>,
    not_after: Option<Value>,
    profile: Option<String>,
    replaces: Option<String>,
}

#[derive(Deserialize)]
struct Identifier {
    #[serde(rename = "type")]
    kind: String,
    value: String,
}

/// newOrder.
pub(crate) async fn create(
    State(ca): State<Arc<Ca>>,
    request: ByAccount,
) -> Result<Response, Problem> {
    let asked: NewOrder = request.payload.json()?;
    if asked.not_before.is_some() || asked.not_after.is_some() {
        return Err(Problem::malformed(
            "notBefore and notAfter cannot be chosen here: choose a profile",
        ));
    }
    let names = names(&ca, &asked.identifiers)?;
    let profile = profile(&ca, asked.profile)?;
    if let Some(replaces) = &asked.replaces {
        ca.check_replaces(replaces, &request.account, &names)?;
    }
    limit::check(&ca, &request.account, &names, asked.replaces.is_some())?;
    check_refused(&ca)?;
    ca.forget_ended();
    let (id, is_new) = place(&ca, &request.account, &names, &profile, asked.replaces)?;
    let shown = ca.orders.read(&id, |order| order.response(&ca));
    let mut response = shown.ok_or_else(|| Problem::not_found("order"))?;
    *response.status_mut() = StatusCode::CREATED;
    if is_new {
        tracing::info!(order = id, names = names.join(" "), "development CA: order created");
    }
    Ok(response)
}

fn names(ca: &Ca, identifiers: &[Identifier]) -> Result<Vec<String>, Problem> {
    if identifiers.is_empty() || identifiers.len() > NAMES {
        return Err(Problem::malformed(format!("an order has 1 to {NAMES} identifiers")));
    }
    let (mut names, mut problems) = (Vec::new(), Vec::new());
    for identifier in identifiers {
        match acceptable(ca, identifier) {
            Ok(name) => names.push(name),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(Problem::compound(Kind::RejectedIdentifier, identifiers.len(), problems));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn acceptable(ca: &Ca, identifier: &Identifier) -> Result<String, Problem> {
    if identifier.kind != "dns" {
        let detail = format!("identifiers of type {:?} are not certified here", identifier.kind);
        let problem = Problem::new(Kind::UnsupportedIdentifier, detail);
        return Err(problem.about_identifier(&identifier.kind, &identifier.value));
    }
    let name = name::parse(&identifier.value)?;
    match ca.faults.strikes_name(FaultKind::RejectIdentifier, &name) {
        true => {
            let detail = format!("policy forbids issuing for {name:?} (a fault is switched on)");
            Err(Problem::new(Kind::RejectedIdentifier, detail).about(&name))
        }
        false => Ok(name),
    }
}

fn profile(ca: &Ca, asked: Option<String>) -> Result<String, Problem> {
    let profiles = &ca.settings.profiles;
    let Some(asked) = asked else {
        return Ok(profiles.first().map(|first| first.name.clone()).unwrap_or_default());
    };
    match profiles.iter().any(|profile| profile.name == asked) {
        true => Ok(asked),
        false => {
            let names: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
            let detail = format!("there is no profile {asked:?}; there are {}", names.join(", "));
            Err(Problem::new(Kind::InvalidProfile, detail))
        }
    }
}

fn check_refused(ca: &Ca) -> Result<(), Problem> {
    if ca.faults.strikes(FaultKind::ActionRequired) {
        let detail = "the terms of service have changed (a fault is switched on)";
        let problem = Problem::new(Kind::UserActionRequired, detail);
        return Err(problem.with_instance(ca.url("/terms")));
    }
    let Some((status, retry_after)) = ca.faults.order_refused() else { return Ok(()) };
    let kind = if status < 500 { Kind::Malformed } else { Kind::ServerInternal };
    let problem = Problem::new(kind, "no orders now (a fault is switched on)")
        .with_status(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    Err(match retry_after {
        Some(seconds) => problem.with_retry_after(seconds.into()),
        None => problem,
    })
}

/// Finds the order that is already there, or makes it.
fn place(
    ca: &Ca,
    account: &str,
    names: &[String],
    profile: &str,
    replaces: Option<String>,
) -> Result<(String, bool), Problem> {
    let id = new_id();
    if let Some(replaces) = &replaces {
        ca.mark_replaced(replaces, &id)?;
    }
    let reusable = ca.settings.reuse_orders && replaces.is_none();
    let serves = |id: &str| {
        let status = ca.orders.read(id, |order| order.status(ca));
        reusable && matches!(status, Some(OrderStatus::Pending | OrderStatus::Ready))
    };
    let make = || {
        let order = draft(ca, id, account, names, profile, replaces);
        let id = order.id.clone();
        ca.orders.add(order);
        id
    };
    Ok(ca.index.order(&Order::key(account, names, profile), serves, make))
}

fn draft(
    ca: &Ca,
    id: String,
    account: &str,
    names: &[String],
    profile: &str,
    replaces: Option<String>,
) -> Order {
    let now = clock::now();
    let expires = now + ca.settings.order_lifetime;
    let authorize = |name: &String| {
        let known = ca.reusable_authorization(account, name);
        known.unwrap_or_else(|| {
            let authorization = Authorization::new(account, name, expires);
            let id = authorization.id.clone();
            ca.authorizations.add(authorization);
            id
        })
    };
    Order {
        id,
        account: account.to_owned(),
        names: names.to_vec(),
        profile: profile.to_owned(),
        replaces,
        created: now,
        expires,
        authorizations: names.iter().map(authorize).collect(),
        stage: Stage::Open,
        finalized: 0,
        finalize_refused: 0,
    }
}
