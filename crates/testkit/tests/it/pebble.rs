//! Pebble starts with a TLS certificate that rustls accepts, and gives its roots.

use holdfast_testkit::{ChallTestSrv, Pebble, PebbleConfig, free_port};

#[tokio::test]
async fn it_starts_and_gives_the_root_of_what_it_issues() {
    let dns = ChallTestSrv::start().await.unwrap();
    let config = PebbleConfig::new(dns.dns(), free_port().unwrap(), free_port().unwrap());
    let pebble = Pebble::start(&config).await.unwrap();
    let issuer = pebble.issuer_root_pem().await.unwrap();
    assert!(issuer.starts_with("-----BEGIN CERTIFICATE-----"), "{issuer}");
    assert_ne!(issuer, pebble.tls_root_pem());
    assert_eq!(std::fs::read_to_string(pebble.tls_root_file()).unwrap(), pebble.tls_root_pem());
}

#[tokio::test]
async fn external_accounts_can_be_asked_for() {
    let dns = ChallTestSrv::start().await.unwrap();
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W".to_owned();
    let config = PebbleConfig {
        external_account: Some(("kid-1".to_owned(), key)),
        ..PebbleConfig::new(dns.dns(), free_port().unwrap(), free_port().unwrap())
    };
    Pebble::start(&config).await.unwrap();
}
