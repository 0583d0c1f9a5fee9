//! Webhooks: messages put down once, sent at least once, each lane in its order.

use std::time::Duration;

use holdfast_store::{
    Attempt, ClaimedDelivery, EventCursor, NewDelivery, NewWebhook, Page, Secret, SharedStore,
    Then, Webhook,
};

use crate::{key::rotate, kit::*};

on_both! {
    a_webhook_is_kept_with_its_secret_and_forgotten,
    it_hears_of_what_comes_after_it,
    messages_are_put_down_once,
    a_lane_is_sent_in_its_order_and_lanes_do_not_wait_for_each_other,
    a_lapsed_claim_is_sent_again_by_another_and_the_first_has_no_say,
    what_is_given_up_lets_the_next_go,
    nothing_of_a_lane_is_forgotten_when_ends_and_new_ones_meet,
    messages_are_listed_newest_first_and_pruned,
    active_before_is_what_history_says,
    a_new_data_key_seals_secrets_anew,
}

async fn keep(store: &SharedStore) -> Webhook {
    let secret = Secret::from("whsec_x".to_owned());
    let events = vec!["domain.active".to_owned()];
    let new = NewWebhook { url: "https://hooks.example.com/x".to_owned(), events, secret };
    store.keep_webhook(&new).await.unwrap()
}

fn message(lane: &str, body: &str) -> NewDelivery {
    NewDelivery { lane: lane.to_owned(), kind: "domain.active".to_owned(), body: body.to_owned() }
}

/// Puts messages down behind all there are.
async fn put(store: &SharedStore, webhook: &Webhook, messages: &[NewDelivery]) {
    let webhook = store.webhooks().await.unwrap().into_iter().find(|one| one.id == webhook.id);
    let webhook = webhook.unwrap();
    let up_to = EventCursor { xid: webhook.after.xid, id: webhook.after.id + 1 };
    assert!(store.put_down(&webhook, up_to, messages).await.unwrap());
}

async fn claim(store: &SharedStore, webhook: &Webhook) -> Vec<ClaimedDelivery> {
    store.claim_deliveries(webhook.id, 100, HOLD).await.unwrap()
}

async fn end(store: &SharedStore, claimed: &ClaimedDelivery, then: Then) -> bool {
    let attempt = Attempt { status: Some(200), error: None, then };
    store.delivery_tried(claimed, &attempt).await.unwrap()
}

fn bodies(claimed: &[ClaimedDelivery]) -> Vec<&str> {
    let mut bodies: Vec<_> = claimed.iter().map(|one| one.body.as_str()).collect();
    bodies.sort_unstable();
    bodies
}

async fn a_webhook_is_kept_with_its_secret_and_forgotten(store: SharedStore) {
    let kept = keep(&store).await;
    assert_eq!(store.webhooks().await.unwrap(), std::slice::from_ref(&kept));
    assert_eq!(store.webhook_secret(kept.id).await.unwrap().expose(), b"whsec_x");
    put(&store, &kept, &[message("a", "1")]).await;
    assert!(store.remove_webhook(kept.id).await.unwrap());
    assert!(!store.remove_webhook(kept.id).await.unwrap());
    assert!(store.webhooks().await.unwrap().is_empty());
    assert!(store.webhook_secret(kept.id).await.is_err());
    assert!(claim(&store, &kept).await.is_empty());
}

async fn it_hears_of_what_comes_after_it(store: SharedStore) {
    add(&store, "before.example.com").await;
    let kept = keep(&store).await;
    assert!(store.events_after(kept.after, 10).await.unwrap().is_empty());
    add(&store, "after.example.com").await;
    assert_eq!(store.events_after(kept.after, 10).await.unwrap().len(), 1);
}

async fn messages_are_put_down_once(store: SharedStore) {
    let kept = keep(&store).await;
    let up_to = EventCursor { xid: kept.after.xid, id: kept.after.id + 1 };
    let put = at_once(6, |_| {
        let (store, kept) = (store.clone(), kept.clone());
        async move { store.put_down(&kept, up_to, &[message("a", "1")]).await.unwrap() }
    })
    .await;
    assert_eq!(put.iter().filter(|put| **put).count(), 1);
    assert_eq!(claim(&store, &kept).await.len(), 1);
    assert_eq!(store.webhooks().await.unwrap()[0].after, up_to);
}

async fn a_lane_is_sent_in_its_order_and_lanes_do_not_wait_for_each_other(store: SharedStore) {
    let kept = keep(&store).await;
    put(&store, &kept, &[message("a", "a1"), message("a", "a2"), message("b", "b1")]).await;
    put(&store, &kept, &[message("a", "a3"), message("b", "b2")]).await;
    let first = claim(&store, &kept).await;
    assert_eq!(bodies(&first), ["a1", "b1"]);
    assert!(claim(&store, &kept).await.is_empty(), "claimed, or behind what is claimed");
    let a1 = first.iter().find(|one| one.body == "a1").unwrap();
    let b1 = first.iter().find(|one| one.body == "b1").unwrap();
    assert_eq!((a1.attempt, a1.webhook), (1, kept.id));
    // One that is to be tried again holds its lane, and no other.
    assert!(end(&store, a1, Then::Again(Duration::from_secs(3600))).await);
    assert!(end(&store, b1, Then::Delivered).await);
    let second = claim(&store, &kept).await;
    assert_eq!(bodies(&second), ["b2"]);
}

async fn a_lapsed_claim_is_sent_again_by_another_and_the_first_has_no_say(store: SharedStore) {
    let kept = keep(&store).await;
    put(&store, &kept, &[message("a", "1"), message("a", "2")]).await;
    let dead = store.claim_deliveries(kept.id, 1, Duration::ZERO).await.unwrap().remove(0);
    let again = claim(&store, &kept).await.remove(0);
    assert_eq!((again.id, again.attempt), (dead.id, 2));
    assert!(!end(&store, &dead, Then::Delivered).await, "its claim is another's");
    assert!(claim(&store, &kept).await.is_empty());
    assert!(end(&store, &again, Then::Delivered).await);
    assert!(!end(&store, &again, Then::Delivered).await, "once");
    assert_eq!(bodies(&claim(&store, &kept).await), ["2"]);
}

async fn what_is_given_up_lets_the_next_go(store: SharedStore) {
    let kept = keep(&store).await;
    put(&store, &kept, &[message("a", "1"), message("a", "2")]).await;
    let first = claim(&store, &kept).await.remove(0);
    let attempt = Attempt { status: None, error: Some("gone".to_owned()), then: Then::GivenUp };
    assert!(store.delivery_tried(&first, &attempt).await.unwrap());
    assert_eq!(bodies(&claim(&store, &kept).await), ["2"]);
    let page = Page { limit: 10, after: None };
    let listed = store.deliveries(kept.id, &page).await.unwrap().items;
    let given_up = &listed[1];
    assert_eq!((given_up.delivered, given_up.error.as_deref()), (false, Some("gone")));
    assert!(given_up.ended_at.is_some() && given_up.next_attempt_at.is_none());
}

/// Who ends the last open one and who puts the next one down, at the same moment, many times.
async fn nothing_of_a_lane_is_forgotten_when_ends_and_new_ones_meet(store: SharedStore) {
    let kept = keep(&store).await;
    put(&store, &kept, &[message("a", "0")]).await;
    for n in 1..40 {
        let mut due = claim(&store, &kept).await;
        assert_eq!(due.len(), 1, "after {n}");
        let last = due.remove(0);
        let (one, other) = (store.clone(), store.clone());
        let (ended, kept) =
            (tokio::spawn(async move { end(&one, &last, Then::Delivered).await }), kept.clone());
        put(&other, &kept, &[message("a", &n.to_string())]).await;
        assert!(ended.await.unwrap());
    }
}

async fn messages_are_listed_newest_first_and_pruned(store: SharedStore) {
    let kept = keep(&store).await;
    let messages: Vec<_> = (0..5).map(|n| message(&n.to_string(), &n.to_string())).collect();
    put(&store, &kept, &messages).await;
    for claimed in claim(&store, &kept).await.iter().take(4) {
        end(&store, claimed, Then::Delivered).await;
    }
    let mut page = Page { limit: 2, after: None };
    let mut lanes = Vec::new();
    loop {
        let part = store.deliveries(kept.id, &page).await.unwrap();
        lanes.extend(part.items.into_iter().map(|one| one.lane));
        match part.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(lanes, ["4", "3", "2", "1", "0"]);
    assert_eq!(store.prune_deliveries(None, 1, 10).await.unwrap(), 0);
    assert_eq!(store.prune_deliveries(None, 0, 3).await.unwrap(), 3);
    assert_eq!(store.prune_deliveries(None, 0, 10).await.unwrap(), 1);
    assert!(store.webhooks().await.unwrap()[0].open_since.is_some(), "what is open stays");
}

async fn active_before_is_what_history_says(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let page = Page { limit: 100, after: None };
    let last = store.history(domain.id, &page).await.unwrap().items.pop().unwrap().cursor;
    assert!(!store.was_active_before(domain.id, last).await.unwrap());
    let later = EventCursor { id: last.id + 1, ..last };
    assert!(store.was_active_before(domain.id, later).await.unwrap());
}

async fn a_new_data_key_seals_secrets_anew(store: SharedStore) {
    let kept = keep(&store).await;
    store.new_data_key().await.unwrap();
    assert!(rotate(&store, 100).await.is_complete());
    assert_eq!(store.webhook_secret(kept.id).await.unwrap().expose(), b"whsec_x");
}
