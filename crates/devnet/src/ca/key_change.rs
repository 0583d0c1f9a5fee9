//! Account key rollover (RFC 8555, section 7.3.5).

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use http::header::LOCATION;
use serde::Deserialize;
use serde_json::Value;

use super::Ca;
use super::jwk::Jwk;
use super::jws::{Jws, Signer};
use super::problem::Problem;
use super::request::ByAccount;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyChange {
    account: String,
    old_key: Value,
}

/// keyChange: the outer request is signed with the old key, the inner one with the new.
pub(crate) async fn change(
    State(ca): State<Arc<Ca>>,
    request: ByAccount,
) -> Result<StatusCode, Problem> {
    let inner: Value = request.payload.json()?;
    let inner = Jws::parse(inner.to_string().as_bytes())?;
    let new_key = inner_key(&inner, &request.url)?;
    let asked: KeyChange = serde_json::from_slice(&inner.payload)
        .map_err(|error| Problem::malformed(format!("the inner payload is wrong: {error}")))?;
    if asked.account != ca.account_url(&request.account) {
        return Err(Problem::malformed("the inner payload is for another account"));
    }
    if Jwk::parse(&asked.old_key).ok().as_ref() != Some(&request.key) {
        return Err(Problem::malformed("oldKey is not the account's key"));
    }
    let (old, new) = (request.key.thumbprint(), new_key.thumbprint());
    if let Err(holder) = ca.index.rekey(&old, &new, &request.account) {
        let problem = Problem::malformed("an account with the new key exists");
        let problem = problem.with_status(StatusCode::CONFLICT);
        return Err(problem.with_header(LOCATION, ca.account_url(&holder)));
    }
    ca.accounts.update(&request.account, |account| account.key = new_key);
    tracing::info!(account = request.account, "development CA: account key changed");
    Ok(StatusCode::OK)
}

fn inner_key(inner: &Jws, url: &str) -> Result<Jwk, Problem> {
    let Signer::Jwk(key) = &inner.signer else {
        return Err(Problem::malformed("the inner request must bring the new key as jwk"));
    };
    if inner.nonce.is_some() || inner.url != url {
        return Err(Problem::malformed("the inner request must have the outer's url and no nonce"));
    }
    inner.verify(key)?;
    Ok(key.clone())
}
