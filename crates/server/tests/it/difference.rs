//! What an edge found when it compared itself with a restored database: taken from the edge alone, shown to people.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::feed::{ask, deploy, register, token_for};
use crate::kit::{Answer, Kit};

async fn tell(kit: &Kit, told: Value) -> Answer {
    ask(kit, &kit.edge, Method::PUT, "/v1/edges/edge-1/difference", told).await
}

async fn shown(kit: &Kit) -> (Value, Value) {
    let edge = kit.get("/v1/edges/edge-1").await.expect(200);
    (edge["unknown_names"].clone(), edge["absent_names"].clone())
}

fn names(count: u64, names: &[&str]) -> Value {
    json!({"count": count, "names": names})
}

async fn told_and_shown(kit: Kit) {
    register(&kit).await;
    assert_eq!(shown(&kit).await, (names(0, &[]), names(0, &[])));
    deploy(&kit, "back.example.com").await;
    let told = json!({
        "unknown": names(1_002, &["new.example.com", "back.example.com"]),
        "absent": names(2, &["back.example.com", "gone.example.com"]),
    });
    assert_eq!(tell(&kit, told).await.status, StatusCode::NO_CONTENT);
    let (unknown, absent) = (names(1_001, &["new.example.com"]), names(1, &["back.example.com"]));
    assert_eq!(shown(&kit).await, (unknown, absent.clone()));
    let told = json!({"unknown": names(500, &[]), "absent": null});
    assert_eq!(tell(&kit, told).await.status, StatusCode::NO_CONTENT);
    assert_eq!(shown(&kit).await, (names(500, &[]), absent));
}

#[tokio::test]
async fn names_that_differ_are_shown_until_they_agree_on_postgres() {
    told_and_shown(Kit::on_postgres().await).await;
}

#[tokio::test]
async fn names_that_differ_are_shown_until_they_agree_on_sqlite() {
    told_and_shown(Kit::new().await).await;
}

#[tokio::test]
async fn a_difference_is_told_by_the_edge_itself_and_in_bounds() {
    let kit = Kit::new().await;
    let nothing = json!({"unknown": names(0, &[])});
    tell(&kit, nothing.clone()).await.problem(404, "edge-unknown");
    register(&kit).await;
    let other = token_for(&kit, "edge-2", "default").await;
    let refused = ask(&kit, &other, Method::PUT, "/v1/edges/edge-1/difference", nothing).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text());
    let many: Vec<_> = (0..1_001).map(|n| format!("n{n}.test")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let refused = tell(&kit, json!({"unknown": names(1_001, &many)})).await;
    assert!(
        refused.status.is_client_error() && refused.text().contains("1001"),
        "{}",
        refused.text()
    );
    assert_eq!(shown(&kit).await, (names(0, &[]), names(0, &[])));
}
