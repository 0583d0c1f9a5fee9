//! Strictness: requests made by hand, each wrong in one way.

use http::Method;
use serde_json::{Value, json};

use crate::signed::{Answer, Signer, b64, post, post_typed};
use crate::world::{World, header};

const NEW_ACCOUNT: &str = "/acme/new-account";
const NEW_ORDER: &str = "/acme/new-order";

fn agree() -> String {
    json!({ "termsOfServiceAgreed": true }).to_string()
}

fn order(name: &str) -> String {
    json!({ "identifiers": [{ "type": "dns", "value": name }] }).to_string()
}

/// Sends newAccount with a protected header changed by the closure.
async fn with_header(world: &World, change: impl FnOnce(&mut Value)) -> Answer {
    let signer = Signer::generate();
    let mut protected = signer.protected(world, NEW_ACCOUNT, ("jwk", signer.jwk())).await;
    change(&mut protected);
    post(world, NEW_ACCOUNT, &signer.sign(&protected, &agree())).await
}

#[track_caller]
fn check(answer: &Answer, status: u16, kind: &str) {
    assert_eq!((answer.status, answer.kind()), (status, kind), "{}", answer.body);
    assert_eq!(header(&answer.headers, "content-type"), "application/problem+json");
    assert!(!header(&answer.headers, "replay-nonce").is_empty());
    assert_eq!(answer.body["status"], status);
}

#[tokio::test]
async fn the_directory_and_nonces_are_as_the_rfc_says() {
    let world = World::start().await;
    let directory = world.json("/directory").await;
    for member in ["newNonce", "newAccount", "newOrder", "revokeCert", "keyChange", "renewalInfo"] {
        assert!(directory[member].as_str().unwrap().starts_with(&world.net.url("/acme/")));
    }
    assert_eq!(directory["meta"]["termsOfService"], world.net.url("/terms"));
    assert_eq!(directory["meta"]["caaIdentities"], json!(["ca.holdfast.test"]));
    for (method, status) in [(Method::HEAD, 200), (Method::GET, 204)] {
        let answer = world.send(method, "/acme/new-nonce", "").await;
        assert_eq!(answer.status(), status);
        assert_eq!(header(answer.headers(), "cache-control"), "no-store");
        assert!(header(answer.headers(), "link").contains("rel=\"index\""));
        assert!(header(answer.headers(), "replay-nonce").len() >= 22);
    }
    let page = world.send(Method::GET, "/", "").await;
    assert!(String::from_utf8_lossy(page.body()).contains("DEVELOPMENT CA – do not trust"));
    let terms = world.send(Method::GET, "/terms", "").await;
    assert!(String::from_utf8_lossy(terms.body()).contains("do not trust"));
}

fn without(member: &'static str) -> impl FnOnce(&mut Value) {
    move |header| drop(header.as_object_mut().unwrap().remove(member))
}

fn with(member: &'static str, value: Value) -> impl FnOnce(&mut Value) {
    move |header| header[member] = value
}

#[tokio::test]
async fn headers_that_are_wrong_are_refused() {
    let world = World::start().await;
    let elsewhere = json!("https://elsewhere.test/acme/new-account");
    check(&with_header(&world, without("nonce")).await, 400, "badNonce");
    check(&with_header(&world, with("nonce", json!("AAAA"))).await, 400, "badNonce");
    check(&with_header(&world, without("url")).await, 400, "malformed");
    check(&with_header(&world, with("url", elsewhere)).await, 401, "unauthorized");
    check(&with_header(&world, with("kid", json!("x"))).await, 400, "malformed");
    check(&with_header(&world, without("jwk")).await, 400, "malformed");
    check(&with_header(&world, without("alg")).await, 400, "malformed");
    check(&with_header(&world, with("crit", json!(["b64"]))).await, 400, "malformed");
    for algorithm in ["none", "HS256", "ES384", "RS512"] {
        let answer = with_header(&world, with("alg", json!(algorithm))).await;
        check(&answer, 400, "badSignatureAlgorithm");
        let algorithms = json!(["ES256", "ES384", "RS256", "EdDSA"]);
        assert_eq!(answer.body["algorithms"], algorithms);
    }
    assert_eq!(world.json("/dev/accounts").await, json!([]));
    assert_eq!(with_header(&world, |_| {}).await.status, 201);
}

#[tokio::test]
async fn keys_that_are_wrong_are_refused() {
    let world = World::start().await;
    let other = Signer::generate().jwk();
    check(&with_header(&world, with("jwk", other)).await, 400, "malformed");
    let private = |header: &mut Value| header["jwk"]["d"] = json!("AA");
    check(&with_header(&world, private).await, 400, "badPublicKey");
    let short = |header: &mut Value| header["jwk"]["x"] = json!("AA");
    check(&with_header(&world, short).await, 400, "badPublicKey");
    let off_curve = |header: &mut Value| header["jwk"]["x"] = json!(b64(&[1; 32]));
    check(&with_header(&world, off_curve).await, 400, "malformed");
    let named = |header: &mut Value| {
        without("jwk")(header);
        with("kid", json!("x"))(header);
    };
    check(&with_header(&world, named).await, 400, "accountDoesNotExist");
}

#[tokio::test]
async fn bodies_that_are_wrong_are_refused() {
    let world = World::start().await;
    let signer = Signer::generate();
    let sign = async |payload: &str| {
        let protected = signer.protected(&world, NEW_ACCOUNT, ("jwk", signer.jwk())).await;
        signer.sign(&protected, payload)
    };
    let mut tampered = sign(&agree()).await;
    tampered["payload"] = json!(b64(b"{\"termsOfServiceAgreed\":true }"));
    let mut unprotected = sign(&agree()).await;
    unprotected["header"] = json!({ "alg": "none" });
    let mut padded = sign(&agree()).await;
    padded["payload"] = json!(format!("{}==", padded["payload"].as_str().unwrap()));
    let mut unsigned = sign(&agree()).await;
    unsigned["signature"] = json!("");
    for (what, body) in [
        ("tampered", tampered),
        ("unprotected header", unprotected),
        ("padded", padded),
        ("unsigned", unsigned),
        ("not JSON inside", sign("nonsense").await),
        ("empty inside", sign("").await),
        ("a list", json!([])),
        ("general JWS", json!({ "payload": "", "signatures": [] })),
    ] {
        let answer = post(&world, NEW_ACCOUNT, &body).await;
        assert_eq!((answer.status, answer.kind()), (400, "malformed"), "{what}: {}", answer.body);
    }
    let good = sign(&agree()).await.to_string();
    for content_type in ["application/json", "application/jose+json; charset=utf-8", "text/plain"] {
        let answer = post_typed(&world, NEW_ACCOUNT, good.clone(), content_type).await;
        check(&answer, 415, "malformed");
    }
    let huge = post_typed(&world, NEW_ACCOUNT, "x".repeat(200_000), "application/jose+json").await;
    check(&huge, 413, "malformed");
    assert_eq!(post_typed(&world, NEW_ACCOUNT, good, "application/jose+json").await.status, 201);
}

#[tokio::test]
async fn a_nonce_is_good_once() {
    let world = World::start().await;
    let signer = Signer::generate();
    let protected = signer.protected(&world, NEW_ACCOUNT, ("jwk", signer.jwk())).await;
    let body = signer.sign(&protected, &agree());
    let first = post(&world, NEW_ACCOUNT, &body).await;
    assert_eq!(first.status, 201);
    check(&post(&world, NEW_ACCOUNT, &body).await, 400, "badNonce");
    let mut fresh = protected.clone();
    fresh["nonce"] = json!(header(&first.headers, "replay-nonce"));
    let again = post(&world, NEW_ACCOUNT, &signer.sign(&fresh, &agree())).await;
    assert_eq!(again.status, 200);
    assert_eq!(header(&again.headers, "location"), header(&first.headers, "location"));
}

#[tokio::test]
async fn key_or_account_each_where_it_belongs() {
    let world = World::start().await;
    let signer = Signer::generate();
    let account = signer.register(&world).await;
    let by_key = signer.post_as_key(&world, NEW_ORDER, &json!({})).await;
    check(&by_key, 400, "malformed");
    let by_account = signer.post(&world, &account, NEW_ACCOUNT, &agree()).await;
    check(&by_account, 400, "malformed");
    let impostor = Signer::generate().post(&world, &account, NEW_ORDER, &order("a.test")).await;
    check(&impostor, 400, "malformed");
    let stranger =
        signer.post(&world, &world.net.url("/acme/account/0"), NEW_ORDER, &order("a.test")).await;
    check(&stranger, 400, "accountDoesNotExist");
    let made = signer.post(&world, &account, NEW_ORDER, &order("a.test")).await;
    assert_eq!(made.status, 201);
}

#[tokio::test]
async fn resources_are_read_with_an_empty_post_alone() {
    let world = World::start().await;
    let signer = Signer::generate();
    let account = signer.register(&world).await;
    let made = signer.post(&world, &account, NEW_ORDER, &order("a.test")).await;
    let url = header(&made.headers, "location").to_owned();
    let path = url.strip_prefix(&world.net.url("")).unwrap().to_owned();
    let got = world.send(Method::GET, &path, "").await;
    assert_eq!(got.status(), 405);
    let shown = signer.post(&world, &account, &path, "").await;
    assert_eq!((shown.status, &shown.body["status"]), (200, &json!("pending")));
    check(&signer.post(&world, &account, &path, "{}").await, 400, "malformed");
    check(&signer.post(&world, &account, "/acme/nowhere", "").await, 404, "malformed");
    let list = shown.body["authorizations"][0].as_str().unwrap();
    let list = list.strip_prefix(&world.net.url("")).unwrap().to_owned();
    let authorization = signer.post(&world, &account, &list, "").await;
    let challenge = authorization.body["challenges"][0]["url"].as_str().unwrap();
    let challenge = challenge.strip_prefix(&world.net.url("")).unwrap().to_owned();
    let shown = signer.post(&world, &account, &challenge, "").await;
    assert_eq!((shown.status, &shown.body["status"]), (200, &json!("pending")));
    let links: Vec<_> =
        shown.headers.get_all("link").iter().map(|one| one.to_str().unwrap()).collect();
    assert!(
        links.iter().any(|link| link.contains("rel=\"up\"") && link.contains(&list)),
        "{links:?}"
    );
}

#[tokio::test]
async fn another_accounts_things_are_out_of_reach() {
    let world = World::start().await;
    let (owner, thief) = (Signer::generate(), Signer::generate());
    let (account, other) = (owner.register(&world).await, thief.register(&world).await);
    let made = owner.post(&world, &account, NEW_ORDER, &order("a.test")).await;
    let strip =
        |url: &Value| url.as_str().unwrap().strip_prefix(&world.net.url("")).unwrap().to_owned();
    let authorization = strip(&made.body["authorizations"][0]);
    let shown = owner.post(&world, &account, &authorization, "").await;
    let challenge = strip(&shown.body["challenges"][0]["url"]);
    let order_path = strip(&json!(header(&made.headers, "location")));
    let deactivate = json!({ "status": "deactivated" }).to_string();
    let finalize = json!({ "csr": "AA" }).to_string();
    let account_path = strip(&json!(account));
    let attempts = [
        (order_path, String::new()),
        (authorization.clone(), String::new()),
        (authorization, deactivate.clone()),
        (challenge.clone(), String::new()),
        (challenge, "{}".to_owned()),
        (strip(&made.body["finalize"]), finalize),
        (account_path.clone(), deactivate),
        (format!("{account_path}/orders"), String::new()),
    ];
    for (path, payload) in attempts {
        check(&thief.post(&world, &other, &path, &payload).await, 403, "unauthorized");
    }
    let list = owner.post(&world, &account, &format!("{account_path}/orders"), "").await;
    assert_eq!(list.body["orders"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_list_of_orders_comes_in_pages() {
    let world = World::start().await;
    let signer = Signer::generate();
    let account = signer.register(&world).await;
    for number in 0..105 {
        signer.post(&world, &account, NEW_ORDER, &order(&format!("n{number}.test"))).await;
    }
    let path = account.strip_prefix(&world.net.url("")).unwrap().to_owned() + "/orders";
    let first = signer.post(&world, &account, &path, "").await;
    assert_eq!(first.body["orders"].as_array().unwrap().len(), 100);
    let links: Vec<_> =
        first.headers.get_all("link").iter().map(|one| one.to_str().unwrap()).collect();
    let next = links.iter().find(|link| link.contains("rel=\"next\"")).unwrap();
    let next = next.trim_start_matches('<').split('>').next().unwrap();
    let second =
        signer.post(&world, &account, next.strip_prefix(&world.net.url("")).unwrap(), "").await;
    assert_eq!(second.body["orders"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn what_cannot_be_ordered_is_refused() {
    let world = World::start().await;
    let signer = Signer::generate();
    let account = signer.register(&world).await;
    let dns = json!([{ "type": "dns", "value": "a.test" }]);
    let cases = [
        (json!({ "identifiers": [] }), "malformed"),
        (json!({}), "malformed"),
        (
            json!({ "identifiers": [{ "type": "ip", "value": "127.0.0.1" }] }),
            "unsupportedIdentifier",
        ),
        (json!({ "identifiers": dns, "notBefore": "2030-01-01T00:00:00Z" }), "malformed"),
        (json!({ "identifiers": dns, "notAfter": "2030-01-01T00:00:00Z" }), "malformed"),
        (json!({ "identifiers": dns, "replaces": "nonsense" }), "malformed"),
        (json!({ "identifiers": dns, "profile": "nonsense" }), "invalidProfile"),
        (json!({ "identifiers": vec![dns[0].clone(); 101] }), "malformed"),
    ];
    for (payload, kind) in cases {
        let answer = signer.post(&world, &account, NEW_ORDER, &payload.to_string()).await;
        check(&answer, 400, kind);
    }
    assert_eq!(world.json("/dev/orders").await, json!([]));
}

#[tokio::test]
async fn it_is_reached_under_other_addresses() {
    for (ca, prefix) in [("[::1]:0", "https://[::1]:"), ("0.0.0.0:0", "https://127.0.0.1:")] {
        let world = World::start_with(|config| config.ca = ca.parse().unwrap()).await;
        assert!(world.net.directory_url().starts_with(prefix));
        world.issue(&world.account().await, &["a.test"]).await.unwrap();
    }
    let world = World::start_with(|config| config.host = Some("localhost".to_owned())).await;
    assert!(world.net.directory_url().starts_with("https://localhost:"));
    world.issue(&world.account().await, &["a.test"]).await.unwrap();
}

#[tokio::test]
async fn an_authorization_is_deactivated_once() {
    let world = World::start().await;
    let signer = Signer::generate();
    let account = signer.register(&world).await;
    let made = signer.post(&world, &account, NEW_ORDER, &order("a.test")).await;
    let url = made.body["authorizations"][0].as_str().unwrap();
    let path = url.strip_prefix(&world.net.url("")).unwrap();
    let deactivate = json!({ "status": "deactivated" }).to_string();
    let done = signer.post(&world, &account, path, &deactivate).await;
    assert_eq!((done.status, &done.body["status"]), (200, &json!("deactivated")));
    check(&signer.post(&world, &account, path, &deactivate).await, 400, "malformed");
    let nonsense = json!({ "status": "valid" }).to_string();
    check(&signer.post(&world, &account, path, &nonsense).await, 400, "malformed");
}
