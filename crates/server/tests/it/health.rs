//! Health and metrics, for machines.

use axum::body::Body;
use holdfast_engine::Pulse;
use holdfast_server::Metrics;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use tower::ServiceExt as _;

use crate::kit::{Answer, Kit};

async fn ask(kit: &Kit, path: &str) -> Answer {
    kit.send(Request::get(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_replica_in_good_order_says_so_without_a_token() {
    let kit = Kit::new().await;
    for path in ["/health/startup", "/health/live", "/health/ready", "/health"] {
        assert_eq!(ask(&kit, path).await.expect(200)["status"], "Healthy", "{path}");
    }
    let health = ask(&kit, "/health").await.expect(200);
    let election = &health["results"]["leader_election"];
    let known = json!({
        "is_leader": true,
        "instance_id": "replica",
        "leader": "replica",
        "term": 1,
        "leaderless_seconds": null,
    });
    assert_eq!(election["data"], known);
    assert_eq!(health["results"]["database"]["status"], "Healthy");
}

#[tokio::test]
async fn from_the_shutdown_on_it_is_alive_but_not_ready() {
    let kit = Kit::new().await;
    ask(&kit, "/health/startup").await.expect(200);
    kit.shutdown.cancel();
    let unready = ask(&kit, "/health/ready").await.expect(503);
    assert_eq!(unready["results"]["shutdown"]["status"], "Unhealthy");
    ask(&kit, "/health/live").await.expect(200);
    ask(&kit, "/health/startup").await.expect(200);
}

#[tokio::test]
async fn metrics_count_every_state_and_all_are_ours() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let answer = ask(&kit, "/metrics").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(
        answer.headers[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let text = answer.text();
    assert!(text.contains("\nholdfast_domains{state=\"Initial\"} 1\n"), "{text}");
    assert!(text.contains("\nholdfast_domains{state=\"Active\"} 0\n"), "{text}");
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    assert!(samples.clone().all(|line| line.starts_with("holdfast_")), "{text}");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_status() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let kit = Kit::with(|settings| settings.metrics = Metrics::of(handle)).await;
    kit.get("/v1/domains/none.example.com").await.problem(404, "not-found");
    kit.send(Request::builder().method("BREW").uri("/pot").body(Body::empty()).unwrap()).await;
    let text = ask(&kit, "/metrics").await.text();
    for line in [
        "holdfast_http_requests_total{method=\"GET\",route=\"/v1/domains/{domain}\",status=\"404\"} 1",
        "holdfast_http_requests_total{method=\"other\",route=\"none\",status=\"404\"} 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn an_engine_is_part_of_the_whole() {
    let kit = Kit::with(|settings| settings.pulse = Some(Pulse::default())).await;
    let health = ask(&kit, "/health").await.expect(200);
    assert_eq!(health["results"]["engine"]["status"], "Healthy");
    assert_eq!(ask(&kit, "/health/ready").await.expect(200)["results"]["engine"], json!(null));
}

#[tokio::test]
async fn while_it_starts_it_is_alive_and_says_what_it_waits_for() {
    let (waits, told) = tokio::sync::watch::channel(None);
    let router = holdfast_server::starting_router(told);
    let ask = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    assert_eq!(ask("/health/live").await.0, 200);
    waits.send_replace(Some("another process migrates the schema".to_owned()));
    for path in ["/health/ready", "/health/startup", "/health", "/v1/domains"] {
        let (status, body) = ask(path).await;
        assert_eq!(status, 503, "{path}");
        assert!(body.contains("another process migrates the schema"), "{path}: {body}");
    }
}
