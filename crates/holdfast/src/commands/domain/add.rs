//! `holdfast domain add NAME`

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::follow::Follow;
use crate::{client::Api, failure::Failure, output::Output};

/// Add a domain.
#[derive(Debug, clap::Args)]
pub(super) struct Add {
    /// The name customers type
    name: String,
    /// Your own key for whose it is
    #[arg(long, value_name = "T")]
    tenant: Option<String>,
    /// Your own key for what is hosted there
    #[arg(long, value_name = "R")]
    resource: Option<String>,
    /// The CNAME value for this customer, instead of the configured one
    #[arg(long, value_name = "HOST")]
    target: Option<String>,
    /// Which edges serve it
    #[arg(long, value_name = "G")]
    edge_group: Option<String>,
    /// A label of your own; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// An idempotency key: the same request with the same key is the same domain
    #[arg(long, value_name = "ID")]
    orchestration_id: Option<String>,
    /// A PEM file with a certificate chain that is already there; no order is made until it is due
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// A PEM file with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Follow the states as they pass; exit 0 on Active, 1 on a failure state
    #[arg(long)]
    wait: bool,
}

impl Add {
    pub(super) async fn run(&self, api: &Api, output: Output) -> Result<(), Failure> {
        let domain = api.post("/v1/domains", Some(&self.request()?)).await?;
        let id = domain.get("id").and_then(Value::as_str).unwrap_or(&self.name).to_owned();
        if self.wait {
            return Follow::from_start(api, output, &id).until_its_end().await;
        }
        if output.is_json() {
            output.json(&domain);
        } else {
            added(output, &domain);
        }
        Ok(())
    }

    fn request(&self) -> Result<Value, Failure> {
        let mut request = Map::from_iter([("name".to_owned(), json!(self.name))]);
        let fields = [
            ("tenant", &self.tenant),
            ("resource", &self.resource),
            ("target", &self.target),
            ("edge_group", &self.edge_group),
            ("orchestration_id", &self.orchestration_id),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                request.insert(name.to_owned(), json!(value));
            }
        }
        if !self.labels.is_empty() {
            let labels: Map<_, _> =
                self.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            request.insert("labels".to_owned(), Value::Object(labels));
        }
        if let (Some(chain), Some(key)) = (&self.certificate, &self.key) {
            let pair = json!({ "chain": pem(chain)?, "key": pem(key)? });
            request.insert("certificate".to_owned(), pair);
        }
        Ok(Value::Object(request))
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it KEY=VALUE".to_owned()),
    }
}

fn pem(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{} cannot be read ({error}); name a PEM file.", path.display()))
    })
}

/// What whoever added it must tell the customer.
fn added(output: Output, domain: &Value) {
    let text = |name: &str| domain.get(name).and_then(Value::as_str).unwrap_or_default();
    let style = output.style();
    output.line(format!(
        "{} {} is {}.",
        style.good("✓"),
        style.bold(text("name")),
        style.state(text("state"))
    ));
    output.line("The customer sets:");
    for records in records(domain) {
        output.line(format!("  {records}"));
    }
    output.line(style.dim(&format!("Follow it with: holdfast domain explain {}", text("name"))));
}

/// The alternatives a customer has, a line each.
pub(super) fn records(domain: &Value) -> Vec<String> {
    let text = |record: &Value, name: &str| {
        record.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let one = |record: &Value| {
        format!("{} {} {}", text(record, "name"), text(record, "type"), text(record, "value"))
    };
    let alternatives = domain.get("required_dns").and_then(Value::as_array);
    let lines = alternatives.into_iter().flatten().filter_map(Value::as_array);
    lines.map(|records| records.iter().map(one).collect::<Vec<_>>().join(" and ")).collect()
}
