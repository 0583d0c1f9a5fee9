//! Being woken: by what happens here, at once.

use std::collections::HashSet;

use holdfast_model::{Note, Outcome, Wanted};
use holdfast_store::{EdgeReport, NewEdge, Observation, Products, SharedStore, Topic};
use tokio::{sync::watch, time::timeout};

use crate::kit::*;

on_both! {
    each_change_wakes_who_waits_for_it,
}

struct Ears(Vec<(Topic, watch::Receiver<u64>)>);

impl Ears {
    /// Which topics rang since the last look. A store may ring more often than it must, so only those asked for are looked for.
    async fn heard(&mut self, expected: &[Topic]) {
        for (topic, ear) in &mut self.0 {
            if expected.contains(topic) {
                timeout(SOON, ear.changed())
                    .await
                    .unwrap_or_else(|_| panic!("{topic:?} did not ring"))
                    .unwrap();
            }
        }
    }

    fn forget(&mut self) {
        self.0.iter_mut().for_each(|(_, ear)| ear.mark_unchanged());
    }
}

async fn each_change_wakes_who_waits_for_it(store: SharedStore) {
    let topics = [Topic::Work, Topic::Deployments, Topic::Events];
    assert_eq!(topics.iter().collect::<HashSet<_>>().len(), 3);
    let mut ears = Ears(topics.map(|topic| (topic, store.wake(topic))).into_iter().collect());
    ears.forget();
    let domain = add(&store, "shop.example.com").await;
    ears.heard(&[Topic::Work, Topic::Events]).await;
    let who = claimant("w");
    let looking =
        step(&store, &claim_one(&store, &who).await, Outcome::Accepted, Products::default()).await;
    ears.heard(&[Topic::Events]).await;
    ears.forget();
    step(&store, &looking, Outcome::DnsPointed, Products::default()).await;
    ears.heard(&[Topic::Work]).await;
    let admitted = admit_one(&store, &who, account(&store).await).await;
    let downloading = into_download(&store, admitted, "1").await;
    ears.forget();
    let deploying = issue(&store, &downloading, "1").await;
    ears.heard(&[Topic::Deployments, Topic::Work, Topic::Events]).await;
    let edge = NewEdge { name: "e1".to_owned(), group: "default".to_owned() };
    let edge = store.register_edge(&edge).await.unwrap().id;
    let seen = Observation { domain: domain.id, sha256: Some("sha-1".to_owned()), error: None };
    let report = EdgeReport { observations: vec![seen], ..EdgeReport::default() };
    ears.forget();
    store.observe(edge, &report, &actor()).await.unwrap();
    ears.heard(&[Topic::Work]).await;
    // Nudged while held: letting go makes it due, and that is told.
    let note = Note::new("edges-applying", "not yet");
    ears.forget();
    finish(&store, &deploying, Outcome::DeploymentPending { note }).await;
    ears.heard(&[Topic::Work]).await;
    ears.forget();
    store.want(domain.id, Wanted::Retry, &actor()).await.unwrap();
    ears.heard(&[Topic::Work, Topic::Events]).await;
    ears.forget();
    store.notice(&actor(), "test", "x", "y").await.unwrap();
    ears.heard(&[Topic::Events]).await;
}
