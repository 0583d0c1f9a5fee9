//! Holdfast's API, as far as it is driven here.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holdfast_model::Timestamp;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::machine;
use crate::web::Web;

/// How often a straggler is looked at: seldom enough to cost nothing that shows.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A batch that takes longer has met something that is worth a look.
const SURPRISING: Duration = Duration::from_secs(30);

/// One replica's API.
#[derive(Clone)]
pub struct Api(Web);

impl Api {
    /// The API at an address.
    pub fn new(base: &str, token: &str) -> Result<Self> {
        Ok(Self(Web::new(base, None, Some(token))?))
    }

    /// The requests themselves.
    #[must_use]
    pub fn web(&self) -> &Web {
        &self.0
    }

    /// Is it ready?
    pub async fn is_ready(&self) -> bool {
        let answer = self.0.send(Method::GET, "/health/ready", None).await;
        answer.is_ok_and(|(status, _)| status == StatusCode::OK)
    }

    /// Waits until it is ready.
    pub async fn ready(&self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        while !self.is_ready().await {
            ensure!(Instant::now() < deadline, "{} was not ready in {within:?}", self.0.base());
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Adds one domain.
    pub async fn add(&self, name: &str) -> Result<Value> {
        self.0.ask(Method::POST, "/v1/domains", Some(&json!({ "name": name }))).await
    }

    /// Adds many domains in one request, all of which must be new.
    pub async fn add_many(&self, names: &[String]) -> Result<()> {
        let items: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        let batch = json!({ "items": items });
        let answer = self.0.ask(Method::POST, "/v1/domains:batch", Some(&batch)).await?;
        let results = answer.get("items").and_then(Value::as_array).context("no results")?;
        for result in results {
            ensure!(result.get("status") == Some(&json!(201)), "not added: {result}");
        }
        Ok(())
    }

    /// One domain.
    pub async fn domain(&self, name: &str) -> Result<Value> {
        self.0.get(&format!("/v1/domains/{name}")).await
    }

    /// Waits until a domain is Active, looking often.
    pub async fn active(&self, name: &str, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let domain = self.domain(name).await?;
            if state(&domain) == "Active" {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{name} was not Active in {within:?}: {domain}");
            sleep(Duration::from_millis(3)).await;
        }
    }

    /// Domains whose name begins so, page by page.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Value>> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.0.get(&format!("/v1/domains?limit=1000&q={prefix}{cursor}")).await?;
            let items = page.get("items").and_then(Value::as_array).context("no items")?;
            all.extend(items.iter().cloned());
            match page.get("next_cursor").and_then(Value::as_str) {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(all),
            }
        }
    }

    /// Adds these domains, whose names begin with `prefix`, and waits until all are Active: how long that took, from the request to the
    /// moment the last became Active.
    pub async fn provision(
        &self,
        prefix: &str,
        names: &[String],
        within: Duration,
    ) -> Result<Duration> {
        let (begun, deadline) = (machine::now(), Instant::now() + within);
        self.add_many(names).await?;
        let done = self.all_active(prefix, names, deadline).await?;
        let last =
            done.iter().max_by_key(|domain| updated_at(domain).ok()).context("no domains")?;
        let took = updated_at(last)?.since(begun);
        if took > SURPRISING {
            println!("The last domain to be Active took {took:?}: {}", self.story(last).await?);
        }
        Ok(took)
    }

    async fn story(&self, domain: &Value) -> Result<String> {
        let history = self.0.get(&format!("/v1/domains/{}/history", text(domain, "id")?)).await?;
        Ok(serde_json::to_string_pretty(&history)?)
    }

    /// Waits for one straggler after the other: looking at all of them would cost what is to be measured.
    async fn all_active(
        &self,
        prefix: &str,
        names: &[String],
        deadline: Instant,
    ) -> Result<Vec<Value>> {
        let mut straggler = names.last().context("no names")?.clone();
        loop {
            while state(&self.domain(&straggler).await?) != "Active" {
                let late = Instant::now() >= deadline;
                ensure!(!late, "{straggler} is late: {}", self.domain(&straggler).await?);
                sleep(LOOK_EVERY).await;
            }
            let all = self.list(prefix).await?;
            match all.iter().find(|domain| state(domain) != "Active") {
                Some(late) => straggler = text(late, "name")?.to_owned(),
                None => {
                    ensure!(all.len() == names.len(), "{} of {} exist", all.len(), names.len());
                    return Ok(all);
                }
            }
        }
    }
}

/// A domain's state.
#[must_use]
pub fn state(domain: &Value) -> &str {
    domain.get("state").and_then(Value::as_str).unwrap_or_default()
}

fn updated_at(domain: &Value) -> Result<Timestamp> {
    Ok(Timestamp::parse(text(domain, "updated_at")?)?)
}

fn text<'a>(domain: &'a Value, field: &'static str) -> Result<&'a str> {
    domain.get(field).and_then(Value::as_str).context(field)
}
