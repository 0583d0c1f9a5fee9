//! Strangers at an edge: reported, shown by file, taken over on request.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::feed::{ask, deploy, get, register};
use crate::kit::Kit;

async fn report(kit: &Kit, report: Value) {
    let taken = ask(kit, &kit.edge, Method::POST, "/v1/edges/edge-1/report", report).await;
    assert_eq!(taken.status, StatusCode::NO_CONTENT, "{}", taken.text());
}

fn strangers() -> Value {
    let sha256 = "ab".repeat(32);
    json!([
        {"file": "/etc/haproxy/old/shop.pem", "names": ["SHOP.example.com", "other.example.org"], "sha256": sha256, "shadows": true},
        {"file": "/etc/haproxy/old/mail.pem", "names": ["mail.example.org"], "sha256": null, "shadows": false},
    ])
}

async fn taken_over(kit: Kit) {
    register(&kit).await;
    let (id, _) = deploy(&kit, "shop.example.com").await;
    report(&kit, json!({"up_to": "1.1", "strangers": strangers(), "observations": [
        {"domain_id": id, "sha256": "ab".repeat(32), "error": {"code": "edge-serves-another", "detail": "an old file\nserves"}},
    ]}))
    .await;
    let edge = kit.get("/v1/edges/edge-1").await.expect(200);
    assert_eq!((&edge["strangers"], &edge["shadows"]), (&json!(2), &json!(1)));
    assert_eq!(edge["stranger_files"][1]["names"][0], "shop.example.com");
    assert_eq!(edge["refused"][0]["name"], "shop.example.com");
    assert_eq!(edge["refused"][0]["error"]["detail"], "an old file serves");
    let listed = kit.get("/v1/edges/edge-1/strangers?limit=1").await.expect(200);
    let next = listed["next_cursor"].as_str().unwrap();
    let rest = kit.get(&format!("/v1/edges/edge-1/strangers?cursor={next}")).await.expect(200);
    assert_eq!(rest["items"][0]["file"], "/etc/haproxy/old/shop.pem");
    let refusals = kit.get("/v1/edges/edge-1/refusals").await.expect(200);
    assert_eq!(refusals["items"], edge["refused"]);

    // Of the other names nobody asked anything of us.
    let path = "/v1/edges/edge-1/adopt";
    kit.json(Method::POST, path, &json!({"name": "mail.example.org"}))
        .await
        .problem(404, "not-found");
    let poll = get(&kit, "/v1/edges/edge-1/changes?after=1.1&wait=30");
    let asked = async { kit.json(Method::POST, path, &json!({"all": true})).await.expect(202) };
    let (told, asked) = tokio::join!(poll, asked);
    let expected = json!([{"file": "/etc/haproxy/old/shop.pem", "name": "shop.example.com"}]);
    assert_eq!(asked["items"], expected);
    let told = told.expect(200);
    assert_eq!((&told["adopt"], &told["up_to"]), (&expected, &json!("1.1")));
    let again = get(&kit, "/v1/edges/edge-1/changes?after=1.1").await.expect(200);
    assert_eq!(again["adopt"], json!([]), "told a moment ago");
    // Asked for anew, it is told anew.
    let by_name = json!({"name": "shop.example.com"});
    assert_eq!(kit.json(Method::POST, path, &by_name).await.expect(202)["items"], expected);
    let again = get(&kit, "/v1/edges/edge-1/changes?after=1.1").await.expect(200);
    assert_eq!(again["adopt"], expected);

    let asked = async || {
        let listed = kit.get("/v1/edges/edge-1/strangers").await.expect(200);
        listed["items"][1]["adoption"].clone()
    };
    assert_eq!(asked().await, json!({"error": null}));
    let error = json!({"code": "edge-not-adoptable", "detail": "it cannot be written"});
    let refused =
        json!([{"file": "/etc/haproxy/old/shop.pem", "name": "shop.example.com", "error": error}]);
    report(&kit, json!({"up_to": "1.1", "adopted": refused})).await;
    assert_eq!(asked().await, json!({"error": error}));
    kit.json(Method::POST, path, &by_name).await.expect(202);
    assert_eq!(asked().await, json!({"error": null}));

    let done =
        json!([{"file": "/etc/haproxy/old/shop.pem", "name": "shop.example.com", "error": null}]);
    report(&kit, json!({"up_to": "1.1", "adopted": done, "strangers": []})).await;
    let edge = kit.get("/v1/edges/edge-1").await.expect(200);
    assert_eq!((&edge["strangers"], &edge["stranger_files"]), (&json!(0), &json!([])));
    kit.json(Method::POST, path, &by_name).await.problem(404, "not-found");
}

#[tokio::test]
async fn a_stranger_is_shown_and_taken_over_on_request() {
    taken_over(Kit::new().await).await;
}

#[tokio::test]
async fn a_stranger_is_shown_and_taken_over_on_request_on_postgres() {
    taken_over(Kit::on_postgres().await).await;
}

#[tokio::test]
async fn a_request_names_exactly_one_way() {
    let kit = Kit::new().await;
    register(&kit).await;
    let path = "/v1/edges/edge-1/adopt";
    for body in [json!({}), json!({"all": true, "name": "a.example.com"}), json!({"all": false})] {
        kit.json(Method::POST, path, &body).await.problem(422, "invalid-field");
    }
    kit.json(Method::POST, "/v1/edges/none/adopt", &json!({"all": true}))
        .await
        .problem(404, "not-found");
    ask(&kit, &kit.edge, Method::POST, path, json!({"all": true})).await.problem(403, "forbidden");
}
