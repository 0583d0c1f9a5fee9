//! Asks a name's addresses over HTTP whether it is us who answers there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_model::Hostname;
use http::{Request, StatusCode};
use tokio::task::JoinSet;

use crate::{HttpAnswer, HttpProof, HttpReply, Limits, Seen};

/// How many addresses of each family are asked.
const ASKED: usize = 2;

/// Longest answer read; ours is far shorter.
const BODY_LIMIT: usize = 4096;

/// Asks some addresses of each family, all at once.
pub(crate) async fn ask(
    name: &Hostname,
    proof: &HttpProof,
    seen: &Seen,
    limits: Limits,
) -> Vec<HttpAnswer> {
    let mut asked = JoinSet::new();
    let families = [&seen.ipv4, &seen.ipv6];
    for address in families.into_iter().flat_map(|walk| walk.addresses.iter().take(ASKED).copied())
    {
        let (name, proof) = (name.clone(), proof.clone());
        asked.spawn(async move {
            let reply = match limits.ask_private || !is_private(address) {
                true => ask_one(&name, &proof, address, limits).await,
                false => HttpReply::Private,
            };
            HttpAnswer { address, reply }
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_unstable_by_key(|answer| answer.address);
    answers
}

async fn ask_one(name: &Hostname, proof: &HttpProof, address: IpAddr, limits: Limits) -> HttpReply {
    let port = proof.port;
    let authority = if port == 80 { name.to_string() } else { format!("{name}:{port}") };
    let url = format!("http://{authority}/.well-known/holdfast/{}", proof.nonce);
    // Connected to the address DNS gave, not to what this machine's own resolver would make of the name.
    let connect_to = move |_: &str, port| Some(SocketAddr::new(address, port));
    let config = ClientConfig {
        time_limit: limits.http,
        body_limit: BODY_LIMIT,
        connect_to: Some(Arc::new(connect_to)),
        ..ClientConfig::default()
    };
    let (Ok(client), Ok(request)) = (Client::new(config), Request::get(url).body(Bytes::new()))
    else {
        return HttpReply::None;
    };
    match client.send(request).await {
        Ok(answer) if answer.status() == StatusCode::OK && is_ours(answer.body(), proof) => {
            HttpReply::Ours
        }
        Ok(answer) => HttpReply::Other(answer.status().as_u16()),
        Err(holdfast_gateway::client::Error::TooLarge { .. }) => HttpReply::Other(200),
        Err(_) => HttpReply::None,
    }
}

fn is_ours(body: &[u8], proof: &HttpProof) -> bool {
    body.trim_ascii() == proof.answer.as_bytes()
}

/// Whether an address lies inside somebody's network, where only its own machines should knock.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let shared = first == 100 && (64..128).contains(&second);
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_multicast()
                || v4.is_broadcast()
                || shared
                || first == 0
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known() {
        let private =
            ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0"];
        let more =
            ["100.64.0.1", "::1", "fd00::1", "fe80::1", "::ffff:10.0.0.1", "ff02::1", "224.0.0.1"];
        for address in private.into_iter().chain(more) {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in ["8.8.8.8", "100.128.0.1", "2001:4860:4860::8888", "::ffff:8.8.8.8"] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }
}
