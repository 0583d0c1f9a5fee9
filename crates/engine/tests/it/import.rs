//! A certificate that is brought along goes straight to the edge, with no order.

use holdfast_acme::certificate::facts;
use holdfast_model::State;
use holdfast_store::{Import, NewCertificate, Secret};
use holdfast_testkit::Pki;

use crate::kit::{Setup, World, new};

#[tokio::test]
async fn an_imported_certificate_is_served_without_an_order() {
    let world = World::start(Setup::default()).await;
    let Pki { chain_pem, key_pem, .. } = Pki::of(&["shop.test"]).unwrap();
    let summary = facts(&chain_pem, "imported").unwrap();
    let sha256 = summary.sha256.clone();
    let certificate = NewCertificate { chain_pem, key: Secret::from(key_pem), summary };
    let new = new("shop.test", Some(Import { certificate }));
    let id = world.store.add(&new).await.unwrap().domain.id;
    world.reaches(id, State::Active).await;
    let passed = world.history(id).await;
    assert_eq!(
        passed,
        [
            State::Initial,
            State::CertificateDownloaded,
            State::CertificateDeploying,
            State::CertificateDeployed,
            State::Active
        ]
    );
    assert!(world.ca_says("orders").await.is_empty());
    let seen = world.store.deployment(id).await.unwrap().seen;
    assert_eq!(seen.map(|seen| seen.sha256), Some(sha256));
}
