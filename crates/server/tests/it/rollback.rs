//! Going back to the certificate before.

use std::time::Duration;

use holdfast_model::{CertificateSummary, Hostname, Outcome, Policy, Timestamp, decide};
use holdfast_store::{Actor, Commit, NewCertificate, Products, Secret};
use http::Method;
use serde_json::json;

use crate::feed::{deploy, get, register};
use crate::kit::{Kit, worker};

/// What a renewal brings.
fn renewed(sha256: &str) -> NewCertificate {
    NewCertificate {
        chain_pem: "chain".to_owned(),
        key: Secret::from("key".to_owned()),
        summary: CertificateSummary {
            serial: "02".to_owned(),
            sha256: sha256.to_owned(),
            not_before: Timestamp::from_seconds(1_700_000_000),
            not_after: Timestamp::from_seconds(4_000_000_000),
            issuer: "Test CA".to_owned(),
            directory: crate::kit::DIRECTORY.to_owned(),
        },
    }
}

/// The domain's newest certificate is another one, and it is Active: as after a renewal.
async fn renew(kit: &Kit, sha256: &str) {
    let seen = kit.work(Outcome::DeploymentSeen, Products::default()).await;
    assert_eq!(seen.domain.state.as_str(), "Active");
    let name = seen.domain.name.clone();
    kit.store.want(seen.domain.id, holdfast_model::Wanted::Renew, &actor()).await.unwrap();
    let batch = kit.store.claim(&worker(), 1, Duration::from_secs(30)).await.unwrap();
    let claimed = batch.work.into_iter().next().unwrap();
    // The way there is the engine's business; here only what it leaves behind counts.
    let commit = Commit {
        transition: decide(
            &claimed.domain,
            &Outcome::RenewalLater { look_at: batch.now },
            &Policy::default(),
            batch.now,
        ),
        products: Products { certificate: Some(renewed(sha256)), ..Products::default() },
        answers_request: true,
        keep_claim: false,
        actor: actor(),
    };
    let after = kit.store.commit(&claimed, &commit).await.unwrap().domain;
    assert_eq!((after.name, after.certificate.unwrap().sha256), (name, sha256.to_owned()));
}

fn actor() -> Actor {
    Actor { instance: "replica".into(), name: "worker".into() }
}

async fn back_and_forth(kit: Kit) {
    register(&kit).await;
    let (id, first) = deploy(&kit, "shop.example.com").await;
    let path = "/v1/domains/shop.example.com/rollback";
    kit.json(Method::POST, path, &json!({})).await.problem(409, "no-earlier-certificate");
    let second = "cd".repeat(32);
    renew(&kit, &second).await;

    let back = kit.json(Method::POST, path, &json!({})).await.expect(202);
    assert_eq!(
        (&back["certificate"]["sha256"], &back["state"]),
        (&json!(first), &json!("CertificateDeploying"))
    );
    let changes = get(&kit, "/v1/edges/edge-1/changes?after=1.2").await.expect(200);
    assert_eq!((&changes["items"][0]["sha256"], &changes["up_to"]), (&json!(first), &json!("1.3")));
    let history = kit.get(&format!("/v1/domains/{id}/history")).await.expect(200);
    let last = history["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["from"], &last["to"]), (&json!("Active"), &json!("CertificateDeploying")));
    assert_eq!(
        (&last["error"]["code"], &last["actor"]),
        (&json!("rolled-back"), &json!("admin-token"))
    );
    let domain =
        kit.store.domain_named(&Hostname::parse("shop.example.com").unwrap()).await.unwrap();
    let held = kit.store.held_until(domain.unwrap().id).await.unwrap();
    assert!(held.is_some_and(|until| until > Timestamp::from_seconds(2_000_000_000)), "{held:?}");

    // Seen, it is Active again, and stays with the earlier one; the newer one is still to be had by name.
    let active = kit.work(Outcome::DeploymentSeen, Products::default()).await.domain;
    assert_eq!(active.certificate.unwrap().sha256, first);
    kit.json(Method::POST, path, &json!({})).await.problem(409, "no-earlier-certificate");
    let to = format!("{path}?to={second}");
    assert_eq!(
        kit.json(Method::POST, &to, &json!({})).await.expect(202)["certificate"]["sha256"],
        json!(second)
    );
    let unknown = format!("{path}?to={}", "00".repeat(32));
    kit.json(Method::POST, &unknown, &json!({})).await.problem(409, "no-earlier-certificate");
}

#[tokio::test]
async fn the_certificate_before_is_deployed_and_kept() {
    back_and_forth(Kit::new().await).await;
}

#[tokio::test]
async fn the_certificate_before_is_deployed_and_kept_on_postgres() {
    back_and_forth(Kit::on_postgres().await).await;
}

/// The one before is there, with its key, and has ended: going back to it would be worse than staying.
async fn nowhere_to_go(kit: Kit) {
    kit.add("shop.example.com").await;
    let mut ended = renewed(&"ab".repeat(32));
    ended.summary.not_after = Timestamp::from_seconds(1_700_086_400);
    let products =
        Products { certificate: Some(ended.clone()), deploy: true, ..Products::default() };
    kit.work(Outcome::Imported, products).await;
    renew(&kit, &"cd".repeat(32)).await;
    let path = "/v1/domains/shop.example.com/rollback";
    let before = kit.get("/v1/domains/shop.example.com").await.expect(200);
    for path in [path.to_owned(), format!("{path}?to={}", ended.summary.sha256)] {
        let refused = kit.json(Method::POST, &path, &json!({})).await;
        let problem = refused.problem(409, "no-earlier-certificate");
        assert!(problem["detail"].as_str().unwrap().contains("renew"), "{problem}");
    }
    let after = kit.get("/v1/domains/shop.example.com").await.expect(200);
    assert_eq!(
        (&after["certificate"], &after["state"], &after["version"]),
        (&before["certificate"], &before["state"], &before["version"]),
        "nothing was touched"
    );
}

#[tokio::test]
async fn what_has_ended_is_not_gone_back_to() {
    nowhere_to_go(Kit::new().await).await;
}

#[tokio::test]
async fn what_has_ended_is_not_gone_back_to_on_postgres() {
    nowhere_to_go(Kit::on_postgres().await).await;
}

#[tokio::test]
async fn not_while_another_one_is_on_its_way() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let path = "/v1/domains/shop.example.com/rollback";
    kit.json(Method::POST, path, &json!({})).await.problem(409, "not-now");
    kit.json(Method::POST, "/v1/domains/none.example.com/rollback", &json!({}))
        .await
        .problem(404, "not-found");
}
