//! Revocation: who may, for which reasons, and what follows.

use instant_acme::{RevocationReason, RevocationRequest};
use serde_json::json;

use crate::signed::Signer;
use crate::world::{World, kind, problem};

#[tokio::test]
async fn the_account_revokes_once() {
    let world = World::start().await;
    let account = world.account().await;
    let issued = world.issue(&account, &["a.test"]).await.unwrap();
    let leaf = issued.leaf();
    let request = |reason| RevocationRequest { certificate: &leaf, reason };
    let hold = problem(account.revoke(&request(Some(RevocationReason::CertificateHold))).await);
    assert_eq!(kind(&hold), "badRevocationReason");
    account.revoke(&request(Some(RevocationReason::Superseded))).await.unwrap();
    let again = problem(account.revoke(&request(None)).await);
    assert_eq!(kind(&again), "alreadyRevoked");
    let certificates = world.json("/dev/certificates?name=a.test").await;
    assert_eq!(certificates[0]["revoked"]["reason"], 4);
    let id = certificates[0]["id"].as_str().unwrap();
    let info = world.json(&format!("/acme/renewal-info/{id}")).await;
    assert!(info["suggestedWindow"]["end"].as_str() <= certificates[0]["revoked"]["at"].as_str());
}

#[tokio::test]
async fn another_account_revokes_only_what_it_has_proven() {
    let world = World::start().await;
    let (mine, theirs) = (world.account().await, world.account().await);
    let issued = world.issue(&theirs, &["a.test", "b.test"]).await.unwrap();
    let leaf = issued.leaf();
    let request = RevocationRequest { certificate: &leaf, reason: None };
    assert_eq!(kind(&problem(mine.revoke(&request).await)), "unauthorized");
    world.issue(&mine, &["a.test"]).await.unwrap();
    assert_eq!(kind(&problem(mine.revoke(&request).await)), "unauthorized");
    world.issue(&mine, &["b.test"]).await.unwrap();
    mine.revoke(&request).await.unwrap();
}

#[tokio::test]
async fn the_certificates_own_key_revokes() {
    let world = World::start().await;
    let issued = world.issue(&world.account().await, &["a.test"]).await.unwrap();
    let payload = json!({ "certificate": crate::signed::b64(&issued.leaf()), "reason": 1 });
    let stranger = Signer::generate();
    let refused = stranger.post_as_key(&world, "/acme/revoke", &payload).await;
    assert_eq!(refused.kind(), "unauthorized");
    let owner = Signer::from_pkcs8(&issued.key.serialize_der());
    let revoked = owner.post_as_key(&world, "/acme/revoke", &payload).await;
    assert_eq!(revoked.status, 200, "{:?}", revoked.body);
}
