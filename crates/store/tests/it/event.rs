//! Events: one order, no gap, a history that outlives its domain.

use std::collections::BTreeSet;

use holdfast_store::{Event, EventBody, EventCursor, Page, SharedStore};

use crate::kit::*;

on_both! {
    a_reader_sees_every_event_once_in_order,
    a_reader_under_load_misses_nothing,
    what_is_new_comes_after_the_latest,
    a_history_is_paged,
    notices_are_in_the_stream_and_not_in_a_history,
}

async fn a_reader_sees_every_event_once_in_order(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let history = store.history(domain.id, &Page { limit: 100, after: None }).await.unwrap().items;
    let mut after = EventCursor::default();
    let mut seen: Vec<Event> = Vec::new();
    loop {
        let events = store.events_after(after, 3).await.unwrap();
        let Some(last) = events.last() else { break };
        after = last.cursor;
        seen.extend(events);
    }
    assert!(seen.is_sorted_by(|a, b| a.cursor < b.cursor));
    assert_eq!(seen, history);
    // The cursor survives its way through a header.
    let text = after.to_string();
    assert_eq!(text.parse::<EventCursor>().unwrap(), after);
}

async fn a_reader_under_load_misses_nothing(store: SharedStore) {
    let writers = {
        let store = store.clone();
        tokio::spawn(async move {
            at_once(8, |n| {
                let store = store.clone();
                async move {
                    for m in 0..25 {
                        add(&store, &format!("n{n}-{m}.example.com")).await;
                    }
                }
            })
            .await
        })
    };
    let mut after = EventCursor::default();
    let mut seen = BTreeSet::new();
    loop {
        let done = writers.is_finished();
        let events = store.events_after(after, 10).await.unwrap();
        for event in &events {
            assert!(event.cursor > after);
            after = event.cursor;
            assert!(seen.insert(event.cursor));
        }
        if done && events.is_empty() {
            break;
        }
    }
    writers.await.unwrap();
    assert_eq!(seen.len(), 200);
}

async fn what_is_new_comes_after_the_latest(store: SharedStore) {
    assert_eq!(store.latest_event().await.unwrap(), EventCursor::default());
    add(&store, "a.example.com").await;
    let latest = store.latest_event().await.unwrap();
    assert!(store.events_after(latest, 10).await.unwrap().is_empty());
    add(&store, "b.example.com").await;
    assert_eq!(store.events_after(latest, 10).await.unwrap().len(), 1);
}

async fn a_history_is_paged(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let whole = store.history(domain.id, &Page { limit: 100, after: None }).await.unwrap();
    assert_eq!(whole.next, None);
    let mut page = Page { limit: 4, after: None };
    let mut seen = Vec::new();
    loop {
        let part = store.history(domain.id, &page).await.unwrap();
        seen.extend(part.items);
        match part.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, whole.items);
}

async fn notices_are_in_the_stream_and_not_in_a_history(store: SharedStore) {
    let domain = add(&store, "shop.example.com").await;
    store.notice(&actor(), "edge-registered", "e1", "in group eu").await.unwrap();
    let events = store.events_after(EventCursor::default(), 10).await.unwrap();
    assert_eq!(events.len(), 2);
    let EventBody::Notice { kind, subject, detail } = &events[1].body else { panic!("{events:?}") };
    assert_eq!(
        (kind.as_str(), subject.as_str(), detail.as_str()),
        ("edge-registered", "e1", "in group eu")
    );
    assert_eq!(events[1].actor, actor());
    let history = store.history(domain.id, &Page { limit: 10, after: None }).await.unwrap();
    assert_eq!(history.items.len(), 1);
}
