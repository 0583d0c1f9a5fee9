//! Bundles: for those who serve, over private channels alone.

use axum::body::Body;
use holdfast_store::EventBody;
use http::{Method, StatusCode, header};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use serde_json::{Value, json};

use crate::kit::{Answer, Kit, asked};

/// A chain and key for a name, as an import request has them.
pub(crate) fn import(name: &str) -> Value {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "Test root");
    let key = KeyPair::generate().unwrap();
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut leaf = CertificateParams::new([name.to_owned()]).unwrap();
    leaf.not_before = date_time_ymd(2020, 1, 1);
    leaf.not_after = date_time_ymd(2099, 1, 1);
    let leaf = leaf.signed_by(&key, &authority).unwrap();
    json!({"chain": leaf.pem() + &authority.pem(), "key": key.serialize_pem()})
}

/// Adds a domain with its certificate.
pub(crate) async fn imported(kit: &Kit, name: &str, pem: &Value) -> Value {
    let body = json!({"name": name, "certificate": pem});
    kit.json(Method::POST, "/v1/domains", &body).await.expect(201)
}

async fn bundle(kit: &Kit, token: &str, known: Option<&str>) -> Answer {
    let mut request = asked(Method::GET, "/v1/domains/shop.example.com/bundle", token);
    if let Some(known) = known {
        request = request.header(header::IF_NONE_MATCH, known);
    }
    kit.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_bundle_is_what_was_imported_and_its_tag_the_fingerprint() {
    let kit = Kit::with(|settings| settings.allow_plaintext = true).await;
    let pem = import("shop.example.com");
    let domain = imported(&kit, "shop.example.com", &pem).await;
    let answer = bundle(&kit, &kit.edge, None).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let text = answer.text();
    assert!(text.starts_with("-----BEGIN CERTIFICATE-----"), "{text}");
    assert!(text.contains("-----BEGIN PRIVATE KEY-----"), "{text}");
    let tag = answer.headers[header::ETAG].to_str().unwrap().to_owned();
    let now = kit.get("/v1/domains/shop.example.com").await.expect(200);
    assert_eq!(now["id"], domain["id"]);
    for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let same = bundle(&kit, &kit.edge, Some(&known)).await;
        assert_eq!((same.status, same.body.len()), (StatusCode::NOT_MODIFIED, 0));
    }
    assert_eq!(bundle(&kit, &kit.admin, Some("\"other\"")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn keys_do_not_leave_over_plain_http() {
    let kit = Kit::new().await;
    let pem = import("shop.example.com");
    imported(&kit, "shop.example.com", &pem).await;
    bundle(&kit, &kit.admin, None).await.problem(403, "plaintext-refused");
}

#[tokio::test]
async fn an_edge_has_the_keys_of_its_group_alone() {
    let kit = Kit::with(|settings| settings.allow_plaintext = true).await;
    let pem = import("shop.example.com");
    let body = json!({"name": "shop.example.com", "edge_group": "other", "certificate": pem});
    kit.json(Method::POST, "/v1/domains", &body).await.expect(201);
    bundle(&kit, &kit.edge, None).await.problem(403, "forbidden");
    bundle(&kit, &kit.read, None).await.problem(403, "forbidden");
    assert_eq!(bundle(&kit, &kit.admin, None).await.status, StatusCode::OK);
}

/// A token of one group asks for another's bundle: refused, and written down with who asked for what.
#[tokio::test]
async fn a_bundle_of_another_group_asked_for_is_written_down() {
    for kit in [
        Kit::with(|settings| settings.allow_plaintext = true).await,
        Kit::on_postgres_with(|settings| settings.allow_plaintext = true).await,
    ] {
        let pem = import("shop.example.com");
        let body = json!({"name": "shop.example.com", "edge_group": "other", "certificate": pem});
        kit.json(Method::POST, "/v1/domains", &body).await.expect(201);
        for _ in 0..2 {
            let refused = bundle(&kit, &kit.edge, None).await;
            assert!(!refused.text().contains("PRIVATE KEY"));
            refused.problem(403, "forbidden");
        }
        let events = kit.store.events_after(holdfast_store::EventCursor::default(), 100).await;
        let refusals: Vec<_> = events
            .unwrap()
            .into_iter()
            .filter_map(|event| match event.body {
                EventBody::Notice { kind, subject, detail } if kind == "edge-refused" => {
                    Some((event.actor.name, subject, detail))
                }
                _ => None,
            })
            .collect();
        let [(who, what, detail)] = refusals.as_slice() else { panic!("{refusals:?}") };
        assert_eq!((who.as_str(), what.as_str()), ("edge-token", "shop.example.com"));
        assert!(detail.contains("`other`") && detail.contains("`edge-token`"), "{detail}");
    }
}

#[tokio::test]
async fn without_a_certificate_there_is_no_bundle() {
    let kit = Kit::with(|settings| settings.allow_plaintext = true).await;
    kit.add("shop.example.com").await;
    bundle(&kit, &kit.admin, None).await.problem(404, "no-certificate");
}

#[tokio::test]
async fn what_does_not_fit_the_name_or_its_key_is_not_imported() {
    let kit = Kit::new().await;
    let shop = import("shop.example.com");
    let other = import("shop.example.com");
    let crossed = json!({"chain": shop["chain"], "key": other["key"]});
    for (name, pem, says) in
        [("other.example.com", &shop, "does not cover"), ("shop.example.com", &crossed, "key")]
    {
        let body = json!({"name": name, "certificate": pem});
        let answer = kit.json(Method::POST, "/v1/domains", &body).await;
        let problem = answer.problem(422, "invalid-certificate");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
}
