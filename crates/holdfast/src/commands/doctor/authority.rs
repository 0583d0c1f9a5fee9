//! The certificate authority: is it there, does it take us, and what are its terms?

use std::time::Duration;

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_model::Timestamp;
use holdfast_store::{SharedStore, Terms};
use http::Request;
use serde_json::Value;

use super::finding::Finding;
use crate::{config::Acme, failure::chain, wiring};

/// What was seen of the CA from here.
pub(super) struct Seen {
    pub(super) findings: Vec<Finding>,
    /// Where its terms of service are, as it says now.
    pub(super) terms: Option<String>,
}

impl From<Finding> for Seen {
    fn from(finding: Finding) -> Self {
        Self { findings: vec![finding], terms: None }
    }
}

pub(super) async fn look(acme: &Acme) -> Seen {
    let roots = match wiring::ca::roots(acme) {
        Ok(roots) => roots,
        Err(failure) => {
            return Finding::wrong("ca", failure.to_string(), "Mend acme.root_certificate.").into();
        }
    };
    if let Err(failure) = wiring::ca::issuer_roots(acme) {
        return Finding::wrong("ca", failure.to_string(), "Mend acme.issuer_roots.").into();
    }
    match directory(acme.directory.as_str(), roots.map(String::into_bytes)).await {
        Ok(directory) => {
            let terms = directory.pointer("/meta/termsOfService").and_then(Value::as_str);
            Seen { findings: judge(acme, &directory), terms: terms.map(ToOwned::to_owned) }
        }
        Err(why) => Finding::wrong(
            "ca",
            why,
            "See that acme.directory is right and that this machine may reach it; for a private CA name its root in acme.root_certificate.",
        )
        .into(),
    }
}

/// What replicas keep of the CA: that it fails, and terms that it changed. `terms` is where they are now, where that is known.
pub(super) async fn kept(store: &SharedStore, acme: &Acme, terms: Option<&str>) -> Vec<Finding> {
    let directory = acme.directory.as_str();
    let account = store.account(directory, wiring::ca::limits(acme)).await.ok().flatten();
    let failing = account.and_then(|account| Some((account.failing_since?, account.failure?)));
    let failing = failing.map(|(since, failure)| {
        Finding::wrong(
            "ca",
            format!("it has failed since {since}: {failure}"),
            "See the CA's status page, and that the replica named may reach it; domains go on by themselves.",
        )
    });
    let (known, now) = (store.terms(directory).await.ok().flatten(), store.ping().await.ok());
    let changed = known.zip(now).and_then(|(known, now)| changed_terms(&known, terms, now));
    failing.into_iter().chain(changed).collect()
}

fn changed_terms(known: &Terms, seen: Option<&str>, now: Timestamp) -> Option<Finding> {
    let fix =
        "Read them. acme.agree_terms = true agrees to them too; without it nothing is ordered.";
    let changed = |before: &str, after: &str| {
        let seen = format!("{after} took the place of {before}, which was agreed to");
        Some(Finding::doubtful("ca terms", seen, fix))
    };
    match (seen, known.newly_replaced(now)) {
        (Some(seen), _) if known.agreed_at.is_some() && seen != known.url => {
            changed(&known.url, seen)
        }
        (_, Some(before)) => changed(before, &known.url),
        _ => None,
    }
}

/// Reads a directory, or says in a clause why not.
pub(super) async fn directory(url: &str, roots: Option<Vec<u8>>) -> Result<Value, String> {
    let config = ClientConfig {
        extra_roots_pem: roots,
        time_limit: Duration::from_secs(10),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_that_changed_since_they_were_agreed_to_are_told() {
        let now = Timestamp::from_seconds(1_800_000_000);
        let known = |agreed: bool, replaced: Option<&str>, days: u64| Terms {
            directory: "https://ca.test/dir".into(),
            url: "https://ca.test/2".into(),
            seen_at: now.minus(Duration::from_secs(days * 86_400)),
            agreed_at: agreed.then_some(now),
            replaced: replaced.map(ToOwned::to_owned),
        };
        let told = |known: &Terms, seen| changed_terms(known, seen, now).map(|one| one.seen);
        let (same, other) = (Some("https://ca.test/2"), Some("https://ca.test/3"));
        assert_eq!(told(&known(true, None, 90), same), None);
        assert_eq!(told(&known(true, None, 90), None), None);
        assert_eq!(told(&known(false, None, 90), other), None, "there was no agreement");
        let seen = told(&known(true, None, 90), other).unwrap();
        assert!(
            seen.starts_with("https://ca.test/3 took the place of https://ca.test/2"),
            "{seen}"
        );
        let before = Some("https://ca.test/1");
        let seen = told(&known(true, before, 3), same).unwrap();
        assert!(
            seen.starts_with("https://ca.test/2 took the place of https://ca.test/1"),
            "{seen}"
        );
        // As long as the alert stands.
        assert!(told(&known(true, before, 30), same).is_some());
        assert_eq!(told(&known(true, before, 31), same), None);
    }
}
