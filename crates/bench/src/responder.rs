//! A web server that answers HTTP-01 for the bare loop, as quickly as one can.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// Answers, by token; clones share them.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<HashMap<String, String>>>);

impl Answers {
    /// From now on this is the answer to a token.
    pub fn set(&self, token: &str, answer: &str) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(token.to_owned(), answer.to_owned());
    }

    fn answer(&self, token: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}

/// A running web server; dropping it ends it.
pub struct Responder {
    serving: AbortHandle,
    answers: Answers,
}

impl Responder {
    /// Listens on an address.
    pub async fn start(address: SocketAddr) -> Result<Self> {
        let answers = Answers::default();
        let listener = TcpListener::bind(address).await?;
        let router = Router::new()
            .route("/.well-known/acme-challenge/{token}", get(answer))
            .with_state(answers.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { serving: serving.abort_handle(), answers })
    }

    /// What it answers.
    #[must_use]
    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    State(answers): State<Answers>,
    Path(token): Path<String>,
) -> Result<String, StatusCode> {
    answers.answer(&token).ok_or(StatusCode::NOT_FOUND)
}
