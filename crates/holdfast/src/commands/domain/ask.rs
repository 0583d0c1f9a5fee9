//! Requests of people about a domain: `retry`, `renew`, `rollback`, `remove`.

use std::time::Duration;

use clap::ArgGroup;
use http::StatusCode;
use serde_json::{Value, json};

use super::follow::Follow;
use crate::{
    client::{Api, escaped, step},
    failure::Failure,
    output::Output,
};

/// Try again now.
#[derive(Debug, clap::Args)]
pub(super) struct Retry {
    /// A name or an id
    name: String,
    /// Follow the states as they pass; exit 0 on Active, 1 on a failure state
    #[arg(long)]
    wait: bool,
}

impl Retry {
    pub(super) async fn run(&self, api: &Api, output: Output) -> Result<(), Failure> {
        ask(api, output, &self.name, "retry", self.wait).await
    }
}

/// Get a new certificate now.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("which").required(true).args(["name", "all"])))]
pub(super) struct Renew {
    /// A name or an id
    name: Option<String>,
    /// All domains whose certificate came from the directory of --issued-by, at the CA's pace
    #[arg(long, requires = "issued_by")]
    all: bool,
    /// The ACME directory whose certificates are to be replaced; `imported` for imported ones
    #[arg(long, value_name = "DIRECTORY", requires = "all")]
    issued_by: Option<String>,
    /// Follow the states as they pass; exit 0 on Active, 1 on a failure state
    #[arg(long, conflicts_with = "all")]
    wait: bool,
}

impl Renew {
    pub(super) async fn run(&self, api: &Api, output: Output) -> Result<(), Failure> {
        match (&self.name, &self.issued_by) {
            (Some(name), _) => ask(api, output, name, "renew", self.wait).await,
            (None, Some(directory)) => move_all(api, output, directory).await,
            (None, None) => {
                Err(Failure::usage("Name a domain, or give --all with --issued-by DIRECTORY."))
            }
        }
    }
}

async fn move_all(api: &Api, output: Output, directory: &str) -> Result<(), Failure> {
    let answer = api.post("/v1/domains:renew", Some(&json!({ "issued_by": directory }))).await?;
    if output.is_json() {
        output.json(&answer);
        return Ok(());
    }
    let to = answer.get("directory").and_then(Value::as_str).unwrap_or_default();
    let style = output.style();
    output.line(format!(
        "{} Certificates of {directory} are replaced by ones of {to}, at the CA's pace.",
        style.good("✓")
    ));
    output.line(style.dim("What is served stays served; see it move with: holdfast domain list"));
    Ok(())
}

async fn ask(api: &Api, output: Output, name: &str, verb: &str, wait: bool) -> Result<(), Failure> {
    let path = format!("/v1/domains/{}", step(name));
    let follow = match wait {
        true => Some(Follow::from_now(api, output, &step(name)).await?),
        false => None,
    };
    let domain = api.post(&format!("{path}/{verb}"), None).await?;
    match follow {
        Some(follow) => return follow.until_its_end().await,
        None if output.is_json() => output.json(&domain),
        None if verb == "retry"
            && domain.get("state").and_then(Value::as_str) == Some("Active") =>
        {
            output.line(format!(
                "{} {name} is Active: there is nothing to try again. A new certificate: holdfast domain renew {name}",
                output.style().good("✓")
            ));
        }
        None => {
            let style = output.style();
            output.line(format!(
                "{} {verb} of {name} is noted; see it with: holdfast domain history {name}",
                style.good("✓")
            ));
        }
    }
    Ok(())
}

/// Go back to the certificate before.
#[derive(Debug, clap::Args)]
pub(super) struct Rollback {
    /// A name or an id
    name: String,
    /// The SHA-256 fingerprint of the certificate to go back to; the one before, without it
    #[arg(long, value_name = "SHA256")]
    to: Option<String>,
    /// Follow the states as they pass; exit 0 on Active, 1 on a failure state
    #[arg(long)]
    wait: bool,
}

impl Rollback {
    pub(super) async fn run(&self, api: &Api, output: Output) -> Result<(), Failure> {
        let query = self.to.as_deref().map(|to| format!("?to={}", escaped(to)));
        let follow = match self.wait {
            true => Some(Follow::from_now(api, output, &step(&self.name)).await?),
            false => None,
        };
        let path =
            format!("/v1/domains/{}/rollback{}", step(&self.name), query.unwrap_or_default());
        let domain = api.post(&path, None).await?;
        match follow {
            Some(follow) => return follow.until_its_end().await,
            None if output.is_json() => output.json(&domain),
            None => {
                let sha256 = domain.pointer("/certificate/sha256").and_then(Value::as_str);
                let (style, name) = (output.style(), &self.name);
                output.line(format!(
                    "{} {name} goes back to certificate {}; see it with: holdfast domain show {name}",
                    style.good("✓"),
                    sha256.unwrap_or_default(),
                ));
            }
        }
        Ok(())
    }
}

/// Remove a domain.
#[derive(Debug, clap::Args)]
pub(super) struct Remove {
    /// A name or an id
    name: String,
    /// Revoke its certificate too
    #[arg(long)]
    revoke: bool,
    /// Wait until the name is free
    #[arg(long)]
    wait: bool,
}

impl Remove {
    pub(super) async fn run(&self, api: &Api, output: Output) -> Result<(), Failure> {
        let query = if self.revoke { "?revoke=true" } else { "" };
        let domain = api.delete(&format!("/v1/domains/{}{query}", step(&self.name))).await?;
        if self.wait {
            gone(api, &domain).await?;
        }
        if output.is_json() {
            output.json(&domain);
            return Ok(());
        }
        let (style, name) = (output.style(), &self.name);
        let what = if self.wait {
            "is removed; its name is free."
        } else {
            "is being removed; its name is free once the edges dropped it."
        };
        output.line(format!("{} {name} {what}", style.good("✓")));
        Ok(())
    }
}

/// Waits until the id answers 410.
async fn gone(api: &Api, domain: &Value) -> Result<(), Failure> {
    let id = domain.get("id").and_then(Value::as_str).unwrap_or_default();
    let path = format!("/v1/domains/{id}");
    while api.send(http::Method::GET, &path, None).await?.status() != StatusCode::GONE {
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    Ok(())
}
