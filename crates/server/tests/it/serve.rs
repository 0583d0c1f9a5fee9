//! A real listener: drained and ended in order, private channels told from others.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_gateway::listener::{TlsListener, server_config};
use holdfast_server::{Door, serve};
use holdfast_testkit::{Pki, eventually};
use http::{Request, StatusCode, header};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::bundle::{import, imported};
use crate::kit::Kit;

async fn begin(kit: &Kit, pki: Option<&Pki>, drain: Duration) -> (SocketAddr, JoinHandle<()>) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let door = match pki {
        None => Door::from(tcp),
        Some(pki) => {
            let config = server_config(pki.chain_pem.as_bytes(), pki.key_pem.as_bytes(), None);
            Door::from(TlsListener::new(tcp, config.unwrap()))
        }
    };
    (address, tokio::spawn(serve(door, kit.router.clone(), kit.shutdown.clone(), drain)))
}

async fn ask(client: &Client, url: &str, token: &str) -> http::Response<Bytes> {
    let request = Request::get(url).header(header::AUTHORIZATION, format!("Bearer {token}"));
    client.send(request.body(Bytes::new()).unwrap()).await.unwrap()
}

fn client(pki: Option<&Pki>) -> Client {
    let extra_roots_pem = pki.map(|pki| pki.root_pem.clone().into_bytes());
    Client::new(ClientConfig { extra_roots_pem, ..ClientConfig::default() }).unwrap()
}

#[tokio::test]
async fn keys_are_given_over_tls_and_on_this_machine() {
    let kit = Kit::new().await;
    imported(&kit, "shop.example.com", &import("shop.example.com")).await;
    let pki = Pki::new().unwrap();
    for pki in [None, Some(&pki)] {
        let (address, _) = begin(&kit, pki, Duration::ZERO).await;
        let scheme = if pki.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}/v1/domains/shop.example.com/bundle");
        let answer = ask(&client(pki), &url, &kit.edge).await;
        assert_eq!(answer.status(), StatusCode::OK, "{url}: {:?}", answer.body());
    }
}

#[tokio::test]
async fn while_it_drains_it_serves_and_says_it_is_not_ready() {
    let kit = Kit::new().await;
    let (address, server) = begin(&kit, None, Duration::from_millis(600)).await;
    let (client, ready) = (client(None), format!("http://{address}/health/ready"));
    assert_eq!(ask(&client, &ready, "").await.status(), StatusCode::OK);
    kit.shutdown.cancel();
    assert_eq!(ask(&client, &ready, "").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let domains = format!("http://{address}/v1/domains");
    assert_eq!(ask(&client, &domains, &kit.admin).await.status(), StatusCode::OK);
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn an_open_event_stream_does_not_hold_up_the_end() {
    let kit = Kit::new().await;
    let (address, server) = begin(&kit, None, Duration::ZERO).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", kit.read);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.unwrap();
    assert!(head.starts_with(b"HTTP/1.1 200"));
    kit.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(5), server).await.expect("ends at once").unwrap();
}

#[tokio::test]
async fn a_request_under_way_is_answered_before_the_end() {
    let kit = Kit::new().await;
    let (address, server) = begin(&kit, None, Duration::ZERO).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = r#"{"name": "shop.example.com"}"#;
    let head = format!(
        "POST /v1/domains HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        kit.admin,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"), "the handler reads the body");
    kit.shutdown.cancel();
    eventually(Duration::from_secs(5), "a closed listener", async || {
        match TcpStream::connect(address).await {
            Ok(_) => Err("still open"),
            Err(_) => Ok(()),
        }
    })
    .await;
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    server.await.unwrap();
}
