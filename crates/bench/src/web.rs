//! One HTTP client for everything that is asked here: Holdfast's API and the CA's control routes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use http::{Method, Request, StatusCode, header};
use serde_json::Value;

/// Lists of thousands of orders are one answer.
const LARGEST_ANSWER: usize = 256 * 1024 * 1024;

/// A place that answers, and what it must be told to do so.
#[derive(Clone)]
pub struct Web {
    client: Client,
    base: String,
    token: Option<String>,
}

impl Web {
    /// A place under a URL; `root_pem` is an extra root to trust, `token` a bearer token to send.
    pub fn new(base: &str, root_pem: Option<&str>, token: Option<&str>) -> Result<Self> {
        let client = Client::new(ClientConfig {
            extra_roots_pem: root_pem.map(|pem| pem.as_bytes().to_vec()),
            time_limit: Duration::from_secs(60),
            body_limit: LARGEST_ANSWER,
            ..ClientConfig::default()
        })?;
        Ok(Self { client, base: base.to_owned(), token: token.map(str::to_owned) })
    }

    /// The client behind it, which shares its connections.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Where it is.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request, whatever the answer is.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Bytes)> {
        let url = format!("{}{path}", self.base);
        let mut request = Request::builder().method(method).uri(&url);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = match body {
            Some(json) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Bytes::from(serde_json::to_vec(json)?)
            }
            None => Bytes::new(),
        };
        let answer = self.client.send(request.body(body)?).await.with_context(|| url.clone())?;
        Ok((answer.status(), answer.into_body()))
    }

    /// Sends a request that must work, and reads its answer; none is null.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let (status, answer) = self.send(method.clone(), path, body).await?;
        let text = String::from_utf8_lossy(&answer);
        ensure!(status.is_success(), "{method} {}{path}: {status} {text}", self.base);
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).with_context(|| format!("{}{path}: {text}", self.base))
    }

    /// Reads something.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.ask(Method::GET, path, None).await
    }
}
