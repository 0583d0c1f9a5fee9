//! Alerts that stand: raised once, cleared once, whichever replica notices.

use holdfast_store::{DOMAIN_EXPIRING, EventBody, EventCursor, SharedStore, StandingAlert};

use crate::kit::*;

on_both! {
    each_is_raised_once_and_cleared_once,
    many_that_notice_at_once_raise_one,
    an_expiring_domain_is_told_by_itself,
}

fn alert(code: &str, subject: &str) -> StandingAlert {
    StandingAlert { code: code.into(), subject: subject.into(), detail: "in words".into() }
}

async fn told(store: &SharedStore) -> Vec<(String, String, String)> {
    let events = store.events_after(EventCursor::default(), 100).await.unwrap();
    let told = events.into_iter().filter_map(|event| match event.body {
        EventBody::Notice { kind, subject, detail } => Some((kind, subject, detail)),
        EventBody::Transition { .. } => None,
    });
    told.collect()
}

fn line(kind: &str, subject: &str, detail: &str) -> (String, String, String) {
    (kind.to_owned(), subject.to_owned(), detail.to_owned())
}

async fn each_is_raised_once_and_cleared_once(store: SharedStore) {
    let both = [alert("stuck", "DnsVerifying"), alert("stuck", "Initial")];
    assert_eq!(store.settle_alerts(None, &actor(), &both).await.unwrap(), 2);
    assert_eq!(store.settle_alerts(None, &actor(), &both).await.unwrap(), 0);
    assert_eq!(store.settle_alerts(None, &actor(), &both[..1]).await.unwrap(), 1);
    assert_eq!(store.settle_alerts(None, &actor(), &both).await.unwrap(), 1);
    assert_eq!(store.settle_alerts(None, &actor(), &[]).await.unwrap(), 2);
    let told = told(&store).await;
    assert_eq!(told[0], line("alert-raised", "DnsVerifying", "stuck: in words"));
    let kinds: Vec<_> = told.iter().map(|(kind, ..)| kind.trim_start_matches("alert-")).collect();
    assert_eq!(kinds, ["raised", "raised", "cleared", "raised", "cleared", "cleared"]);
}

async fn many_that_notice_at_once_raise_one(store: SharedStore) {
    let made = at_once(6, |_| {
        let store = store.clone();
        async move { store.settle_alerts(None, &actor(), &[alert("stuck", "x")]).await.unwrap() }
    })
    .await;
    assert_eq!(made.iter().sum::<u64>(), 1, "{made:?}");
    assert_eq!(told(&store).await.len(), 1);
}

async fn an_expiring_domain_is_told_by_itself(store: SharedStore) {
    let expiring = [alert(DOMAIN_EXPIRING, "shop.example.com")];
    assert_eq!(store.settle_alerts(None, &actor(), &expiring).await.unwrap(), 1);
    assert_eq!(store.settle_alerts(None, &actor(), &[]).await.unwrap(), 0);
    assert_eq!(told(&store).await, [line("domain-expiring", "shop.example.com", "in words")]);
}
