//! Ports: free, or already ours.

use std::net::SocketAddr;

use bytes::Bytes;
use holdfast_gateway::{
    client::{Client, ClientConfig},
    listener,
};
use http::Request;

use super::finding::Finding;
use crate::config::Config;

pub(super) async fn look(config: &Config) -> Vec<Finding> {
    let addresses = [
        ("port api", Some(config.server.listen)),
        ("port http", config.edge.http),
        ("port https", config.edge.https),
    ];
    // Whether a replica runs here is asked once: the edge's ports are its own then as well.
    let runs = answers(config).await;
    let mut findings = Vec::new();
    for (what, address) in
        addresses.into_iter().filter_map(|(what, address)| Some((what, address?)))
    {
        findings.push(port(what, address, runs).await);
    }
    let without = config.edge.without_http();
    findings.extend(without.map(|note| Finding::doubtful("port http", note.what, note.fix)));
    findings
}

async fn port(what: &'static str, address: SocketAddr, runs: bool) -> Finding {
    match listener::bind(address).await {
        Ok(_) => Finding::good(what, format!("{address} is free")),
        Err(listener::Error::InUse { .. }) if runs => {
            Finding::good(what, format!("{address} is in use, and a replica runs here"))
        }
        Err(error) => {
            let text = error.to_string();
            let (seen, fix) = text.split_once(": ").unwrap_or((&text, "choose another address"));
            Finding::wrong(what, seen, format!("To mend it, {fix}."))
        }
    }
}

/// Does something at our own address answer as a replica does?
async fn answers(config: &Config) -> bool {
    let scheme = if config.server.has_tls() { "https" } else { "http" };
    let listen = config.server.listen;
    let ip = if listen.ip().is_unspecified() { [127, 0, 0, 1].into() } else { listen.ip() };
    let url = format!("{scheme}://{}/health/live", SocketAddr::new(ip, listen.port()));
    let roots = config.server.tls_certificate.as_ref().and_then(|path| std::fs::read(path).ok());
    let settings = ClientConfig {
        extra_roots_pem: roots,
        time_limit: std::time::Duration::from_secs(3),
        ..ClientConfig::default()
    };
    let (Ok(client), Ok(request)) = (Client::new(settings), Request::get(url).body(Bytes::new()))
    else {
        return false;
    };
    match client.send(request).await {
        Ok(answer) => String::from_utf8_lossy(answer.body()).contains("Healthy"),
        // A replica whose certificate names no address still speaks TLS there.
        Err(holdfast_gateway::client::Error::Tls { .. }) => true,
        Err(_) => false,
    }
}
