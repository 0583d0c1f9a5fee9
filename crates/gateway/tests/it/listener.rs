//! Handshakes that are slow, broken or too many, and addresses that cannot be had.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig, Error};
use holdfast_gateway::listener::{self, TlsListener};
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::peer::{Pki, bound, serve_tls};

const AGES: Duration = Duration::from_secs(3600);

async fn ask(pki: &Pki, address: SocketAddr) -> Result<Bytes, Error> {
    let roots = Some(pki.root_pem.clone().into_bytes());
    let client = Client::new(ClientConfig { extra_roots_pem: roots, ..ClientConfig::default() })?;
    let request = Request::get(format!("https://{address}/")).body(Bytes::new()).unwrap();
    Ok(client.send(request).await?.into_body())
}

#[tokio::test]
async fn the_peer_is_known() {
    let pki = Pki::new();
    let address = serve_tls(|tcp| TlsListener::new(tcp, pki.server_config())).await;
    assert_eq!(ask(&pki, address).await.unwrap(), "127.0.0.1");
}

#[tokio::test]
async fn silent_and_broken_clients_keep_nobody_out() {
    let pki = Pki::new();
    let address =
        serve_tls(|tcp| TlsListener::new(tcp, pki.server_config()).with_limits(AGES, 1000)).await;
    let mut idle = Vec::new();
    for n in 0..50 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        }
        idle.push(stream);
    }
    assert_eq!(ask(&pki, address).await.unwrap(), "127.0.0.1");
}

#[tokio::test]
async fn beyond_the_bound_the_oldest_handshake_gives_way() {
    let pki = Pki::new();
    let address =
        serve_tls(|tcp| TlsListener::new(tcp, pki.server_config()).with_limits(AGES, 4)).await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(ask(&pki, address).await.unwrap(), "127.0.0.1");
    let ended = idle[0].read(&mut [0; 16]).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "the oldest is still open: {ended:?}");
}

#[tokio::test]
async fn a_handshake_ends_at_its_time_limit() {
    let pki = Pki::new();
    let limit = Duration::from_millis(20);
    let address =
        serve_tls(|tcp| TlsListener::new(tcp, pki.server_config()).with_limits(limit, 4)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
}

#[tokio::test]
async fn clients_without_a_certificate_are_refused_where_one_is_asked_for() {
    let pki = Pki::new();
    let (chain, key, root) =
        (pki.chain_pem.as_bytes(), pki.key_pem.as_bytes(), pki.root_pem.as_bytes());
    let config = listener::server_config(chain, key, Some(root)).unwrap();
    let address = serve_tls(|tcp| TlsListener::new(tcp, config)).await;
    ask(&pki, address).await.unwrap_err();
}

#[tokio::test]
async fn an_address_in_use_is_named_with_the_remedy() {
    let (_tcp, address) = bound().await;
    let refused = listener::bind(address).await.unwrap_err().to_string();
    assert!(refused.starts_with(&format!("{address} is already in use: stop")), "{refused}");
}

#[tokio::test]
async fn an_address_of_another_machine_is_named() {
    let refused = listener::bind("192.0.2.1:0".parse().unwrap()).await.unwrap_err().to_string();
    assert!(refused.starts_with("192.0.2.1:0 is not an address of this machine"), "{refused}");
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (one, other) = (Pki::new(), Pki::new());
    let refused = listener::server_config(one.chain_pem.as_bytes(), other.key_pem.as_bytes(), None);
    assert!(matches!(refused, Err(listener::Error::Certificate { .. })), "{refused:?}");
}
