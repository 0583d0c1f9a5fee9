//! The API's own certificate, and whom this machine trusts.

use std::path::Path;

use holdfast_gateway::listener;

use super::finding::Finding;
use crate::{clock, config::Config, failure::chain};

/// A certificate that ends sooner is worth a word.
const SOON: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3_600);

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let mut findings = vec![roots()];
    let server = &config.server;
    if let (Some(certificate), Some(key)) = (&server.tls_certificate, &server.tls_key) {
        findings.push(own(certificate, key, server.client_ca.as_deref()));
    } else if !server.listen.ip().is_loopback() && !config.security.allow_plaintext {
        findings.push(Finding::doubtful(
            "api tls",
            format!("{} is reachable from other machines without TLS: bundles are refused to them, and tokens travel in the open", server.listen),
            "Set server.tls_certificate and server.tls_key, or security.allow_plaintext = true where a proxy in front ends TLS.",
        ));
    }
    findings
}

fn roots() -> Finding {
    let found = rustls_native_certs::load_native_certs();
    match found.certs.len() {
        0 => Finding::doubtful(
            "tls roots",
            "this machine trusts no certificate authority",
            "Install the package ca-certificates; without it only acme.root_certificate is trusted.",
        ),
        many => Finding::good(
            "tls roots",
            format!("this machine trusts {many} certificate authorities"),
        ),
    }
}

fn own(certificate: &Path, key: &Path, clients: Option<&Path>) -> Finding {
    let wrong = |seen: String| {
        Finding::wrong(
            "api tls",
            seen,
            "Put a PEM chain and its key where server.tls_certificate and server.tls_key say.",
        )
    };
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let loaded = (|| {
        let (chain_pem, key_pem) = (read(certificate)?, read(key)?);
        let clients = clients.map(read).transpose()?;
        listener::server_config(&chain_pem, &key_pem, clients.as_deref())
            .map_err(|error| chain(&error))?;
        let text = String::from_utf8_lossy(&chain_pem).into_owned();
        holdfast_acme::certificate::facts(&text, "").map_err(|error| chain(&error))
    })();
    let facts = match loaded {
        Ok(facts) => facts,
        Err(seen) => return wrong(seen),
    };
    let now = clock::now();
    let until = format!("{} ({})", facts.not_after, clock::relative(facts.not_after, now));
    match facts.not_after.since(now) {
        left if left.is_zero() => wrong(format!("the certificate ended {until}")),
        left if left < SOON => Finding::doubtful(
            "api tls",
            format!("the certificate ends {until}"),
            "Renew it soon, and restart this replica.",
        ),
        _ => Finding::good("api tls", format!("valid until {until}")),
    }
}
