//! Requests that succeed, and the ways in which they fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig, Error};
use holdfast_gateway::listener::TlsListener;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;

use crate::peer::{Pki, bound, serve_plain, serve_tls};

fn config() -> ClientConfig {
    ClientConfig {
        time_limit: Duration::from_secs(20),
        body_limit: 1000,
        ..ClientConfig::default()
    }
}

async fn get(config: ClientConfig, url: String) -> Result<Response<Bytes>, Error> {
    let request = Request::get(url).body(Bytes::new()).unwrap();
    Client::new(config).unwrap().send(request).await
}

/// Asks a TLS server whose root is trusted.
async fn get_trusted(path: &str) -> Result<Response<Bytes>, Error> {
    let pki = Pki::new();
    let address = serve_tls(|tcp| TlsListener::new(tcp, pki.server_config())).await;
    let config = ClientConfig { extra_roots_pem: Some(pki.root_pem.into_bytes()), ..config() };
    get(config, format!("https://{address}{path}")).await
}

#[tokio::test]
async fn an_extra_root_is_trusted_and_http_2_spoken() {
    let answer = get_trusted("/version").await.unwrap();
    assert_eq!((answer.status(), &answer.body()[..]), (StatusCode::OK, &b"HTTP/2.0"[..]));
}

#[tokio::test]
async fn the_user_agent_is_sent() {
    let answer = get_trusted("/agent").await.unwrap();
    assert!(answer.body().starts_with(b"\"holdfast/"), "{answer:?}");
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    assert_eq!(get_trusted("/moved").await.unwrap().status(), StatusCode::TEMPORARY_REDIRECT);
}

#[tokio::test]
async fn an_answer_over_the_limit_is_refused() {
    let refused = get_trusted("/large").await.unwrap_err();
    assert!(matches!(refused, Error::TooLarge { limit: 1000, .. }), "{refused:?}");
}

#[tokio::test]
async fn an_unknown_root_is_a_tls_error() {
    let pki = Pki::new();
    let address = serve_tls(|tcp| TlsListener::new(tcp, pki.server_config())).await;
    let config =
        ClientConfig { extra_roots_pem: Some(Pki::new().root_pem.into_bytes()), ..config() };
    let refused = get(config, format!("https://{address}/")).await.unwrap_err();
    assert!(matches!(refused, Error::Tls { .. }), "{refused:?}");
    assert!(refused.never_sent());
}

#[tokio::test]
async fn a_wrong_name_is_a_tls_error() {
    let pki = Pki::new();
    let address = serve_tls(|tcp| TlsListener::new(tcp, pki.server_config())).await;
    let config = ClientConfig {
        extra_roots_pem: Some(pki.root_pem.into_bytes()),
        connect_to: Some(Arc::new(move |_: &str, _| Some(address))),
        ..config()
    };
    let refused = get(config, "https://another.test/".to_owned()).await.unwrap_err();
    assert!(matches!(refused, Error::Tls { .. }), "{refused:?}");
}

#[tokio::test]
async fn plain_http_behind_https_is_a_tls_error() {
    let address = serve_plain().await;
    let config =
        ClientConfig { extra_roots_pem: Some(Pki::new().root_pem.into_bytes()), ..config() };
    let refused = get(config, format!("https://{address}/")).await.unwrap_err();
    assert!(matches!(refused, Error::Tls { .. }), "{refused:?}");
}

#[tokio::test]
async fn nobody_listening_is_a_connect_error() {
    let (tcp, address) = bound().await;
    drop(tcp);
    for scheme in ["http", "https"] {
        let config =
            ClientConfig { extra_roots_pem: Some(Pki::new().root_pem.into_bytes()), ..config() };
        let refused = get(config, format!("{scheme}://{address}/")).await.unwrap_err();
        assert!(matches!(refused, Error::Connect { .. }), "{refused:?}");
        assert!(refused.never_sent());
    }
}

#[tokio::test]
async fn silence_is_a_timeout_and_leaves_open_whether_it_took_effect() {
    let address = serve_plain().await;
    let config = ClientConfig { time_limit: Duration::from_millis(50), ..config() };
    let refused = get(config, format!("http://{address}/slow")).await.unwrap_err();
    assert!(matches!(refused, Error::Timeout { .. }), "{refused:?}");
    assert!(!refused.never_sent());
}

#[tokio::test]
async fn a_connection_closed_in_between_is_told_apart() {
    let (tcp, address) = bound().await;
    tokio::spawn(async move { while tcp.accept().await.is_ok() {} });
    let refused = get(config(), format!("http://{address}/")).await.unwrap_err();
    assert!(matches!(refused, Error::Exchange { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_connection_can_be_led_elsewhere_while_the_name_stays() {
    let address = serve_plain().await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let asked = seen.clone();
    let connect_to = move |host: &str, port: u16| -> Option<SocketAddr> {
        asked.lock().unwrap().push((host.to_owned(), port));
        Some(address)
    };
    let config = ClientConfig { connect_to: Some(Arc::new(connect_to)), ..config() };
    let answer = get(config, "http://shop.example.com/host".to_owned()).await.unwrap();
    assert_eq!(&answer.body()[..], b"\"shop.example.com\"");
    assert_eq!(*seen.lock().unwrap(), [("shop.example.com".to_owned(), 80)]);
}

#[tokio::test]
async fn a_stream_is_not_bound_by_the_body_limit() {
    let address = serve_plain().await;
    let request = Request::get(format!("http://{address}/large")).body(String::new()).unwrap();
    let answer = Client::new(config()).unwrap().send_streaming(request).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 2000);
}

#[test]
fn roots_that_are_none_are_refused_at_once() {
    for pem in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let config = ClientConfig { extra_roots_pem: Some(pem.into()), ..config() };
        assert!(Client::new(config).is_err(), "{pem:?} was accepted");
    }
}
