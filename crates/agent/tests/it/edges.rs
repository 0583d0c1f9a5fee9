//! Two edges: one that stands still or refuses keeps the other from nothing.

use std::sync::Arc;

use holdfast_agent::HaproxyTarget;

use crate::kit::{Authority, Memory, Proxied, Running};

async fn pair() -> (Proxied, Proxied) {
    let (one, mut two) = (Proxied::new().await, Proxied::new().await);
    two.authority = one.authority.clone();
    (one, two)
}

fn deploy(edges: [&Proxied; 2], authority: &Authority, host: &str) -> String {
    let bundle = authority.issue(host);
    for edge in edges {
        edge.memory.deploy(&bundle);
    }
    bundle.summary.sha256
}

#[tokio::test]
async fn one_that_stands_still_catches_up_and_both_end_equal() {
    let (one, two) = pair().await;
    let _running = (one.run(), two.run());
    let first = deploy([&one, &two], &one.authority, "a.test");
    one.memory.until_seen("a.test", Some(&first)).await;
    two.memory.until_seen("a.test", Some(&first)).await;
    two.haproxy.process().unwrap().pause().unwrap();
    let second = deploy([&one, &two], &one.authority, "a.test");
    let new = deploy([&one, &two], &one.authority, "b.test");
    one.memory.until_seen("a.test", Some(&second)).await;
    one.memory.until_seen("b.test", Some(&new)).await;
    assert_ne!(two.memory.observed("a.test").unwrap().sha256, Some(second.clone()));
    two.haproxy.process().unwrap().resume().unwrap();
    for edge in [&one, &two] {
        edge.memory.until_seen("a.test", Some(&second)).await;
        edge.memory.until_seen("b.test", Some(&new)).await;
        assert_eq!(edge.visit("a.test").await, second);
        assert_eq!(edge.visit("b.test").await, new);
    }
}

#[tokio::test]
async fn one_that_refuses_everything_does_not_stop_the_other() {
    let (one, two) = pair().await;
    let mut settings = two.settings();
    settings.bufsize = 100;
    let target = Arc::new(HaproxyTarget::new(settings).unwrap());
    let _running = (one.run(), Running::start(two.memory.clone(), target, two.config()));
    let sha256 = deploy([&one, &two], &one.authority, "a.test");
    one.memory.until_seen("a.test", Some(&sha256)).await;
    let refused = |memory: &Memory| memory.observed("a.test")?.error;
    let note = two.memory.until("the refusal", refused).await;
    assert_eq!(note.code, "payload-too-large");
    let next = deploy([&one, &two], &one.authority, "b.test");
    one.memory.until_seen("b.test", Some(&next)).await;
}
