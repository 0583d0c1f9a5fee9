//! The proxy carries, cuts, refuses, holds and mends.

use std::time::Duration;

use holdfast_testkit::{Proxy, Way, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const SOON: Duration = Duration::from_secs(30);

/// A server that says what it heard, and echoes it.
async fn echo() -> (u16, mpsc::UnboundedReceiver<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (heard, hearing) = mpsc::unbounded_channel();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let heard = heard.clone();
            tokio::spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    heard.send(byte).ok();
                    stream.write_u8(byte).await.ok();
                }
            });
        }
    });
    (port, hearing)
}

async fn said(stream: &mut TcpStream, byte: u8) -> u8 {
    stream.write_u8(byte).await.unwrap();
    tokio::time::timeout(SOON, stream.read_u8()).await.unwrap().unwrap()
}

#[tokio::test]
async fn it_carries_and_cuts_and_lets_in_again() {
    let (port, _heard) = echo().await;
    let proxy = Proxy::before(port).await.unwrap();
    let url = proxy.lead(&format!("redis://127.0.0.1:{port}/1"));
    assert_eq!(url, format!("redis://{}/1", proxy.address()));
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(said(&mut stream, 1).await, 1);
    proxy.cut();
    tokio::time::timeout(SOON, stream.read_u8()).await.unwrap().unwrap_err();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(said(&mut stream, 2).await, 2);
}

#[tokio::test]
async fn refusing_leaves_open_connections_alone() {
    let (port, _heard) = echo().await;
    let proxy = Proxy::before(port).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(said(&mut stream, 1).await, 1);
    proxy.refuse().await;
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(said(&mut stream, 2).await, 2);
    proxy.resume().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(said(&mut stream, 3).await, 3);
}

#[tokio::test]
async fn what_is_held_arrives_when_the_wire_is_mended() {
    let (port, mut heard) = echo().await;
    let proxy = Proxy::before(port).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.hold(Way::ToClient);
    stream.write_u8(1).await.unwrap();
    assert_eq!(heard.recv().await, Some(1), "the way to the server is open");
    proxy.hold(Way::ToServer);
    stream.write_u8(2).await.unwrap();
    let mut byte = [0];
    assert_eq!(stream.try_read(&mut byte).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(heard.try_recv().is_err());
    proxy.resume().await;
    assert_eq!(stream.read_u8().await.unwrap(), 1);
    assert_eq!(stream.read_u8().await.unwrap(), 2);
}

#[tokio::test]
async fn a_delay_is_each_way() {
    let (port, _heard) = echo().await;
    let proxy = Proxy::before(port).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let delay = Duration::from_millis(30);
    proxy.delay(delay);
    let begun = tokio::time::Instant::now();
    assert_eq!(said(&mut stream, 1).await, 1);
    assert!(begun.elapsed() >= delay * 2);
}

#[tokio::test]
async fn without_a_server_a_connection_ends() {
    let port = holdfast_testkit::free_port().unwrap();
    let proxy = Proxy::before(port).await.unwrap();
    eventually(SOON, "the end", async || {
        let mut stream = TcpStream::connect(proxy.address()).await.map_err(|e| e.to_string())?;
        match stream.read_u8().await {
            Ok(_) => Err("something was said".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
}
