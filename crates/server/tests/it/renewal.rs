//! Moving to another CA: noted once, paced by the workers.

use http::Method;
use serde_json::json;

use crate::kit::{DIRECTORY, Kit};

#[tokio::test]
async fn a_move_from_another_directory_is_noted() {
    let kit = Kit::new().await;
    let body = json!({"issued_by": "https://staging.example/directory"});
    let answer = kit.json(Method::POST, "/v1/domains:renew", &body).await.expect(202);
    let expected =
        json!({"issued_by": "https://staging.example/directory", "directory": DIRECTORY});
    assert_eq!(answer, expected);
    let moving = kit.store.moving_from().await.unwrap();
    assert_eq!(moving.as_deref(), Some("https://staging.example/directory"));
}
