//! The certificate authority: is it there, does it take us, and what are its terms?

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use http::Request;
use serde_json::Value;

use super::finding::Finding;
use crate::{config::Acme, failure::chain, wiring};

pub(super) async fn look(acme: &Acme) -> Vec<Finding> {
    let roots = match wiring::ca::roots(acme) {
        Ok(roots) => roots,
        Err(failure) => {
            return vec![Finding::wrong("ca", failure.to_string(), "Mend acme.root_certificate.")];
        }
    };
    if let Err(failure) = wiring::ca::issuer_roots(acme) {
        return vec![Finding::wrong("ca", failure.to_string(), "Mend acme.issuer_roots.")];
    }
    match directory(acme.directory.as_str(), roots.map(String::into_bytes)).await {
        Ok(directory) => judge(acme, &directory),
        Err(why) => vec![Finding::wrong(
            "ca",
            why,
            "See that acme.directory is right and that this machine may reach it; for a private CA name its root in acme.root_certificate.",
        )],
    }
}

/// Reads a directory, or says in a clause why not.
pub(super) async fn directory(url: &str, roots: Option<Vec<u8>>) -> Result<Value, String> {
    let config = ClientConfig {
        extra_roots_pem: roots,
        time_limit: std::time::Duration::from_secs(10),
        ..ClientConfig::default()
    };
    let client = Client::new(config).map_err(|error| chain(&error))?;
    let request = Request::get(url).body(Bytes::new()).map_err(|error| error.to_string())?;
    let answer = client.send(request).await.map_err(|error| chain(&error))?;
    if !answer.status().is_success() {
        return Err(format!("{url} answered {}", answer.status()));
    }
    let directory: Value =
        serde_json::from_slice(answer.body()).map_err(|_| format!("{url} answered no JSON"))?;
    match directory.get("newOrder") {
        Some(_) => Ok(directory),
        None => Err(format!("{url} is no ACME directory")),
    }
}

fn judge(acme: &Acme, directory: &Value) -> Vec<Finding> {
    let mut findings = vec![Finding::good("ca", format!("{} answers", acme.directory))];
    let meta = |name: &str| directory.pointer(&format!("/meta/{name}"));
    if let Some(terms) = meta("termsOfService").and_then(Value::as_str) {
        findings.push(Finding::good("ca terms", format!("agreed to by acme.agree_terms: {terms}")));
    }
    let bound = meta("externalAccountRequired").and_then(Value::as_bool).unwrap_or_default();
    if bound && acme.eab_key_id.is_none() {
        findings.push(Finding::wrong(
            "ca account",
            "this CA gives accounts only to its own customers (external account binding)",
            "Set acme.eab_key_id and acme.eab_hmac_key as the CA gave them.",
        ));
    }
    if let Some(profile) = &acme.profile {
        let offered = meta("profiles").and_then(Value::as_object);
        let known = offered.is_some_and(|offered| offered.contains_key(profile));
        let names = offered.map(|offered| offered.keys().cloned().collect::<Vec<_>>().join(", "));
        findings.push(match known {
            true => Finding::good("ca profile", format!("{profile} is offered")),
            false => Finding::wrong(
                "ca profile",
                format!("this CA offers no profile {profile}"),
                format!(
                    "Set acme.profile to one of: {}.",
                    names.unwrap_or_else(|| "none; remove the key".to_owned())
                ),
            ),
        });
    }
    findings
}
