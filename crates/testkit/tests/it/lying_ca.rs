//! A CA that lies: in front of Pebble, whose URLs follow the Host header.

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_testkit::{ChallTestSrv, Endpoint, Lie, LyingCa, Pebble, PebbleConfig, free_port};
use http::{Request, Response};
use serde_json::Value;

async fn get(lying: &LyingCa, path: &str) -> Option<Response<Bytes>> {
    let roots = Some(lying.tls_root_pem().as_bytes().to_vec());
    let client = Client::new(ClientConfig { extra_roots_pem: roots, ..ClientConfig::default() });
    let request = Request::get(lying.url(path)).body(Bytes::new()).unwrap();
    client.unwrap().send(request).await.ok()
}

async fn before_pebble() -> (LyingCa, Pebble, ChallTestSrv) {
    let dns = ChallTestSrv::start().await.unwrap();
    let config = PebbleConfig::new(dns.dns(), free_port().unwrap(), free_port().unwrap());
    let pebble = Pebble::start(&config).await.unwrap();
    let lying = LyingCa::start().await.unwrap();
    lying.stand_before(pebble.address(), pebble.tls_root_pem()).unwrap();
    (lying, pebble, dns)
}

#[tokio::test]
async fn what_is_not_lied_about_is_passed_on_with_urls_that_lead_here() {
    let (lying, _pebble, _dns) = before_pebble().await;
    let directory = get(&lying, "/dir").await.unwrap();
    let said: Value = serde_json::from_slice(directory.body()).unwrap();
    assert_eq!(said["newOrder"].as_str(), Some(lying.url("/order-plz").as_str()));
    let nonce = get(&lying, "/nonce-plz").await.unwrap();
    assert!(nonce.headers().contains_key("replay-nonce"));
    assert_eq!((lying.asked(Endpoint::Directory), lying.asked(Endpoint::NewNonce)), (1, 1));
}

#[tokio::test]
async fn a_lie_is_told_about_the_answers_it_names_and_no_others() {
    let (lying, _pebble, _dns) = before_pebble().await;
    lying.tell(Lie::about(Endpoint::Directory).nth(2).status(404).header("location", "file:///x"));
    lying.tell(Lie::about(Endpoint::Directory).nth(3).member("newOrder", "http://a.test/"));
    lying.tell(Lie::about(Endpoint::NewNonce).times(1).problem(400, "badNonce", "no"));
    lying.tell(Lie::about(Endpoint::Other).dropped());
    assert_eq!(get(&lying, "/dir").await.unwrap().status(), 200);
    let second = get(&lying, "/dir").await.unwrap();
    assert_eq!(
        (second.status().as_u16(), &second.headers()["location"]),
        (404, &"file:///x".parse().unwrap())
    );
    let third = get(&lying, "/dir").await.unwrap();
    let said: Value = serde_json::from_slice(third.body()).unwrap();
    assert_eq!(said["newOrder"], "http://a.test/");
    let refused = get(&lying, "/nonce-plz").await.unwrap();
    assert_eq!(refused.status(), 400);
    assert!(!refused.headers().contains_key("replay-nonce"), "the CA was not asked");
    assert_eq!(get(&lying, "/nonce-plz").await.unwrap().status(), 204);
    assert!(get(&lying, "/elsewhere").await.is_none());
    lying.be_honest();
    assert_eq!(get(&lying, "/elsewhere").await.unwrap().status(), 404);
}
