//! The DNS server answers what it is told to. Asked by hand, so that no resolver stands between.

use std::net::SocketAddr;

use holdfast_testkit::ChallTestSrv;
use tokio::net::UdpSocket;

/// The response code and the number of answers to a question for an address.
async fn ask(server: SocketAddr, name: &str, kind: u8) -> (u8, u8) {
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, kind, 0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&query, server).await.unwrap();
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).await.unwrap();
    assert!(length >= 12);
    (answer[3] & 0x0f, answer[7])
}

const A: u8 = 1;
const AAAA: u8 = 28;

#[tokio::test]
async fn it_answers_what_it_is_told_to() {
    let server = ChallTestSrv::start().await.unwrap();
    assert_eq!(ask(server.dns(), "shop.example.com", A).await, (0, 1));
    assert_eq!(ask(server.dns(), "shop.example.com", AAAA).await, (0, 0));
    let addresses = ["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
    server.set_addresses("shop.example.com", &addresses).await.unwrap();
    assert_eq!(ask(server.dns(), "shop.example.com", A).await, (0, 2));
    server.set_addresses("shop.example.com", &["::1".parse().unwrap()]).await.unwrap();
    assert_eq!(ask(server.dns(), "shop.example.com", AAAA).await, (0, 1));
    server.set_servfail("shop.example.com").await.unwrap();
    assert_eq!(ask(server.dns(), "shop.example.com", A).await, (2, 0));
}
