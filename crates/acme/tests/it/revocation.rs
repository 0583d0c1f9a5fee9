//! Revocation by the account, by the certificate's own key, and what is refused.

use holdfast_acme::{Ca, CaConfig, Class, KeyType};

use crate::kit::{Net, issue};

#[tokio::test]
async fn the_account_revokes_what_it_ordered_and_again_is_fine() {
    let net = Net::start().await;
    let ca = net.ca();
    let (chain, key) = issue(&ca, &net.answers, "ended.shop.test").await;
    for key in [None, Some(&key), None] {
        ca.revoke(&chain, key).await.unwrap();
    }
    // Cessation of operation: by the key alone it would count as leaked.
    assert_eq!(net.listed("certificates").await[0]["revoked"]["reason"], 5);
}

#[tokio::test]
async fn the_key_revokes_what_another_account_ordered() {
    for key_type in [KeyType::EcdsaP256, KeyType::Rsa2048] {
        let net = Net::start().await;
        let others = CaConfig { key_type, ..net.config() };
        let others = Ca::new(others, crate::store::open().await).unwrap();
        let (chain, key) = issue(&others, &net.answers, "theirs.shop.test").await;
        let ca = net.ca();
        let error = ca.revoke(&chain, None).await.unwrap_err();
        assert!(matches!(error.class(), Class::Trouble(_)), "{error}");
        assert!(net.listed("certificates").await[0]["revoked"].is_null());
        ca.revoke(&chain, Some(&key)).await.unwrap();
        assert!(net.listed("certificates").await[0]["revoked"].is_object());
        others.revoke(&chain, None).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_certificate_is_not_sent() {
    let net = Net::start().await;
    let error = net.ca().revoke("no chain", None).await.unwrap_err();
    assert!(matches!(error.class(), Class::Trouble(note) if note.code == "bad-certificate"));
}
