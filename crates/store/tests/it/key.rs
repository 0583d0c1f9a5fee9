//! Sealing: what was sealed opens, through every change of keys, and only where it lies.

use holdfast_store::{EventBody, EventCursor, Resealing, Rotation, SharedStore, proof_answer};

use crate::{kit::*, raw::Raw};

on_both! {
    everything_opens_after_a_rotation,
    a_rotation_goes_in_steps,
    the_cluster_secret_is_made_once,
}

raw_on_both! {
    what_does_not_open_is_passed_over_and_named,
    a_rotation_that_was_cut_short_is_known_and_ended_by_the_next,
}

/// Seals everything anew, to the end.
pub(crate) async fn rotate(store: &SharedStore, limit: u32) -> Rotation {
    let mut resealing = Resealing::default();
    loop {
        if let Some(rotation) = resealing.step(store, limit, &actor()).await.unwrap() {
            return rotation;
        }
    }
}

async fn seal_some(store: &SharedStore) -> holdfast_store::Claimed {
    active(store, "a.example.com", "1").await;
    add(store, "b.example.com").await;
    let who = claimant("w");
    into_queue(store, claim_one(store, &who).await).await;
    let admitted = admit_one(store, &who, account(store).await).await;
    let downloading = into_download(store, admitted, "t2").await;
    let next = holdfast_store::Secret::from("next".to_owned());
    store.journal_next_key(account(store).await, &next).await.unwrap();
    store.cluster_secret().await.unwrap();
    downloading
}

async fn check_all(store: &SharedStore, downloading: &holdfast_store::Claimed) {
    let served = store.bundle_named(&host("a.example.com")).await.unwrap().unwrap();
    assert_eq!(served.key.expose(), b"key 1");
    let order = store.open_order(downloading.domain.id).await.unwrap().unwrap();
    assert_eq!(order.key.unwrap().expose(), b"key t2");
    let account = store.account(DIRECTORY, MANY).await.unwrap().unwrap();
    assert_eq!(account.key.expose(), b"account key");
    assert_eq!(account.next_key.unwrap().expose(), b"next");
}

async fn everything_opens_after_a_rotation(store: SharedStore) {
    let downloading = seal_some(&store).await;
    for _ in 0..3 {
        store.new_data_key().await.unwrap();
        check_all(&store, &downloading).await;
        let rotation = rotate(&store, 1_000).await;
        // A certificate, an order, an account with its next key, and the cluster's secret.
        assert_eq!((rotation.resealed, rotation.is_complete()), (5, true));
        check_all(&store, &downloading).await;
    }
    assert_eq!(rotate(&store, 1_000).await.resealed, 0);
}

async fn a_rotation_goes_in_steps(store: SharedStore) {
    seal_some(&store).await;
    store.new_data_key().await.unwrap();
    let (mut steps, mut after) = (Vec::new(), None);
    loop {
        let step = store.reseal(after.as_ref(), 2).await.unwrap();
        steps.push(step.resealed);
        after = step.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(steps, [2, 2, 1]);
}

async fn the_cluster_secret_is_made_once(store: SharedStore) {
    let secrets = at_once(10, |_| {
        let store = store.clone();
        async move { store.cluster_secret().await.unwrap() }
    })
    .await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
    assert_eq!(secrets[0].expose().len(), 32);
    assert_eq!(proof_answer(&secrets[0], "nonce"), proof_answer(&secrets[1], "nonce"));
}

/// How often the end of a rotation was told, and what was said last.
async fn told(store: &SharedStore) -> Vec<String> {
    let events = store.events_after(EventCursor::default(), 10_000).await.unwrap();
    let told = events.into_iter().filter_map(|event| match event.body {
        EventBody::Notice { kind, detail, .. } if kind == "key-rotated" => Some(detail),
        _ => None,
    });
    told.collect()
}

async fn what_does_not_open_is_passed_over_and_named(raw: Raw) {
    let store = raw.store.clone();
    let downloading = seal_some(&store).await;
    let broken = active(&store, "broken.example.com", "9").await;
    let cut = if raw.is_postgres() { "substring(value FOR 30)" } else { "substr(value, 1, 30)" };
    raw.execute(&format!(
        "UPDATE sealed SET value = {cut} WHERE owner = 'certificate' AND id = (
            SELECT certificate_id FROM domain WHERE name = 'broken.example.com')"
    ))
    .await;
    // A newer release has sealed something of a kind of its own.
    raw.execute(&format!(
        "INSERT INTO sealed (owner, id, sealing_key, value)
         SELECT 'novelty', {}, sealing_key, value FROM sealed WHERE owner = 'cluster'",
        raw.some_id()
    ))
    .await;
    store.new_data_key().await.unwrap();
    for limit in [1, 3, 1_000] {
        let rotation = rotate(&store, limit).await;
        assert!(rotation.over && !rotation.is_complete(), "{rotation:?}");
        let named: Vec<_> =
            rotation.named.iter().map(|one| (one.owner.as_str(), one.name.as_deref())).collect();
        let expected = [("certificate", Some("broken.example.com")), ("novelty", None)];
        assert_eq!((rotation.left, named.as_slice()), (2, expected.as_slice()));
        assert_eq!(rotation.resealed, if limit == 1 { 5 } else { 0 });
    }
    check_all(&store, &downloading).await;
    assert_eq!(store.sealed_before(10).await.unwrap().len(), 2);
    assert!(!store.is_rotating().await.unwrap());
    let told = told(&store).await;
    assert!(told.len() == 1 && told[0].contains("(broken.example.com)"), "{told:?}");
    // What is under no older key any more is complete, whatever was left before.
    raw.execute("DELETE FROM sealed WHERE owner = 'novelty'").await;
    remove(&store, broken.id).await;
    raw.execute("DELETE FROM sealed WHERE owner = 'certificate' AND sealing_key = 1").await;
    assert!(rotate(&store, 10).await.is_complete());
    assert_eq!(raw.number("SELECT count(*) FROM sealing_key").await, 1);
}

async fn a_rotation_that_was_cut_short_is_known_and_ended_by_the_next(raw: Raw) {
    let new: Vec<_> =
        (0..40).map(|n| imported(&format!("n{n:02}.example.com"), &format!("{n}"))).collect();
    for added in raw.store.add_many(&new).await.unwrap() {
        added.unwrap();
    }
    let raw = raw.killed_while("rotates_its_key").await;
    assert!(raw.store.is_rotating().await.unwrap());
    assert!(raw.number("SELECT count(*) FROM sealed WHERE sealing_key = 1").await > 0);
    assert!(told(&raw.store).await.is_empty());
    assert!(rotate(&raw.store, 7).await.is_complete());
    assert!(!raw.store.is_rotating().await.unwrap());
    assert_eq!(told(&raw.store).await.len(), 1);
    assert_eq!(raw.number("SELECT count(*) FROM sealed WHERE sealing_key = 1").await, 0);
    assert_eq!(raw.number("SELECT count(*) FROM sealing_key").await, 1);
    for new in new {
        let bundle = raw.store.bundle(new.id).await.unwrap().unwrap();
        assert_eq!(bundle.key.expose(), new.import.unwrap().certificate.key.expose());
    }
}
