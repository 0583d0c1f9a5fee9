//! The way in: directory, nonces, terms, and a page for people who came by accident.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Html;
use http::StatusCode;
use http::header::CACHE_CONTROL;
use serde_json::{Map, Value, json};

use super::authority::LABEL;
use super::{CAA_IDENTITY, Ca};

/// The directory (RFC 8555, section 7.1.1).
pub(crate) async fn directory(State(ca): State<Arc<Ca>>) -> Json<Value> {
    let profiles = ca.settings.profiles.iter();
    let profiles: Map<String, Value> =
        profiles.map(|one| (one.name.clone(), one.description.clone().into())).collect();
    let mut meta = json!({
        "website": ca.url("/"),
        "caaIdentities": [CAA_IDENTITY],
        "profiles": profiles,
        "externalAccountRequired": ca.settings.external_account_required,
    });
    if let Some(meta) = meta.as_object_mut().filter(|_| ca.settings.terms) {
        meta.insert("termsOfService".to_owned(), json!(ca.url("/terms")));
    }
    Json(json!({
        "newNonce": ca.url("/acme/new-nonce"),
        "newAccount": ca.url("/acme/new-account"),
        "newOrder": ca.url("/acme/new-order"),
        "revokeCert": ca.url("/acme/revoke"),
        "keyChange": ca.url("/acme/key-change"),
        "renewalInfo": ca.url("/acme/renewal-info"),
        "meta": meta,
        LABEL: "https://github.com/holdfast/holdfast",
    }))
}

/// newNonce with HEAD; the nonce itself is on every answer.
pub(crate) async fn nonce_by_head() -> ([(http::HeaderName, &'static str); 1], StatusCode) {
    ([(CACHE_CONTROL, "no-store")], StatusCode::OK)
}

/// newNonce with GET.
pub(crate) async fn nonce_by_get() -> ([(http::HeaderName, &'static str); 1], StatusCode) {
    ([(CACHE_CONTROL, "no-store")], StatusCode::NO_CONTENT)
}

/// The terms of service.
pub(crate) async fn terms() -> String {
    format!(
        "{LABEL}\n\nNothing that this CA says is true outside this machine. Use it for development and tests.\n"
    )
}

/// The root page.
pub(crate) async fn page(State(ca): State<Arc<Ca>>) -> Html<String> {
    let directory = ca.url("/directory");
    Html(format!(
        "<!doctype html><meta charset=utf-8><title>{LABEL}</title>\
         <h1>{LABEL}</h1>\
         <p>This is the CA that Holdfast brings along for development and tests. Its certificates prove nothing.\
         <p>ACME directory: <a href={directory}>{directory}</a>. \
         What it did: <a href=/dev/orders>orders</a>, <a href=/dev/accounts>accounts</a>, \
         <a href=/dev/certificates>certificates</a>. \
         How it behaves: <a href=/dev/faults>faults</a>, <a href=/dev/dns>DNS records</a>, \
         <a href=/dev/ari>renewal windows</a>.\n"
    ))
}
