//! The CA's routes, and what holds for every ACME answer: a fresh nonce, a link to the directory, faults.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, LINK};
use http::{HeaderName, Method, StatusCode};

use super::problem::{Kind, Problem};
use super::{
    Ca, account, authorization, certificate, challenge, control, directory, finalize, key_change,
    limit, new_order, order, renewal, revocation,
};
use crate::clock;
use crate::faults::FaultKind;

const REPLAY_NONCE: HeaderName = HeaderName::from_static("replay-nonce");

/// Put on an answer that must not be sent: the connection is closed instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped;

/// All routes.
pub(crate) fn router(ca: &Arc<Ca>) -> Router {
    let pages = Router::new()
        .route("/", get(directory::page))
        .route("/terms", get(directory::terms))
        .with_state(ca.clone());
    acme(ca).merge(pages).merge(control::router(ca))
}

fn acme(ca: &Arc<Ca>) -> Router {
    let nonce = get(directory::nonce_by_get).head(directory::nonce_by_head);
    Router::new()
        .route("/directory", get(directory::directory))
        .route("/acme/new-nonce", nonce)
        .route("/acme/new-account", post(account::create))
        .route("/acme/account/{id}", post(account::update))
        .route("/acme/account/{id}/orders", post(account::orders))
        .route("/acme/key-change", post(key_change::change))
        .route("/acme/new-order", post(new_order::create))
        .route("/acme/order/{id}", post(order::show))
        .route("/acme/order/{id}/finalize", post(finalize::finalize))
        .route("/acme/authorization/{id}", post(authorization::update))
        .route("/acme/challenge/{id}/{kind}", post(challenge::respond))
        .route("/acme/certificate/{serial}", post(certificate::download))
        .route("/acme/revoke", post(revocation::revoke))
        .route("/acme/renewal-info/{id}", get(renewal::show))
        .fallback(async || Problem::not_found("page"))
        .method_not_allowed_fallback(async || {
            Problem::malformed("resources are read with POST-as-GET")
                .with_status(StatusCode::METHOD_NOT_ALLOWED)
        })
        .layer(from_fn_with_state(ca.clone(), answer))
        .with_state(ca.clone())
}

async fn answer(State(ca): State<Arc<Ca>>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if let Some(delay) = ca.faults.delay(FaultKind::SlowRequest) {
        tokio::time::sleep(delay).await;
    }
    if let Some(status) = ca.faults.web_page() {
        // Not the CA itself answers, so neither a nonce nor a link comes with it.
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND);
        return (status, Html("<!doctype html><title>Maintenance</title>")).into_response();
    }
    let mut response = match refusal(&ca) {
        Some(problem) => problem.into_response(),
        None if ca.faults.strikes(FaultKind::AddressLimit) => limit::page(),
        None => next.run(request).await,
    };
    // What an answer tells must outlive a kill that follows it.
    if let Err(error) = ca.journal.flushed().await {
        response = Problem::new(Kind::ServerInternal, error.to_string()).into_response();
    }
    // As at Let's Encrypt: what is merely read brings no nonce, so that clients must know where to fetch one.
    if method == Method::POST || path == "/acme/new-nonce" {
        super::append(&mut response, REPLAY_NONCE, &ca.nonces.mint());
    }
    if path != "/directory" {
        super::append(&mut response, LINK, &format!("<{}>;rel=\"index\"", ca.url("/directory")));
    }
    if method == Method::POST {
        super::append(&mut response, CACHE_CONTROL, "public, max-age=0, no-cache");
        if ca.faults.strikes(FaultKind::DroppedReply) {
            response.extensions_mut().insert(Dropped);
        }
    }
    response
}

fn refusal(ca: &Ca) -> Option<Problem> {
    if let Some(wait) = ca.faults.delay(FaultKind::Unavailable) {
        let problem = Problem::new(Kind::ServerInternal, "unavailable (a fault is switched on)");
        let problem = problem.with_status(StatusCode::SERVICE_UNAVAILABLE);
        return Some(problem.with_retry_after(clock::ceil_seconds(wait)));
    }
    let strikes = ca.faults.strikes(FaultKind::ServerError);
    strikes.then(|| Problem::new(Kind::ServerInternal, "an error (a fault is switched on)"))
}
