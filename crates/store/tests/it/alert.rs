//! Alerts that stand: raised once, cleared once, whichever replica notices.

use holdfast_store::{DOMAIN_EXPIRING, Ending, EventBody, EventCursor, SharedStore, StandingAlert};

use crate::{kit::*, raw::Raw};

on_both! {
    each_is_raised_once_and_cleared_once,
    many_that_notice_at_once_raise_one,
}

raw_on_both! {
    every_domain_whose_end_is_near_is_told_of_once,
    an_end_is_near_in_proportion_to_the_life,
    a_certificate_that_was_old_when_it_came_is_found,
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

async fn every_domain_whose_end_is_near_is_told_of_once(raw: Raw) {
    let store = &raw.store;
    let new: Vec<_> =
        (0..25).map(|n| imported(&format!("n{n:05}.example.com"), &n.to_string())).collect();
    for added in store.add_many(&new).await.unwrap() {
        added.unwrap();
    }
    let settle = async || store.settle_expiring(None, &actor(), 10).await.unwrap();
    // Their lives began in 2023 and end in 2096: that is not near.
    assert_eq!((settle().await, store.ending(5).await.unwrap()), (0, Ending::default()));
    // All at the same moment: no part ends between two that differ.
    raw.execute(&raw.ends_soon()).await;
    // What other alerts stand is another matter.
    store.settle_alerts(None, &actor(), &[alert("stuck", "x")]).await.unwrap();
    assert_eq!((settle().await, settle().await), (25, 0));
    store.settle_alerts(None, &actor(), &[]).await.unwrap();
    assert_eq!(settle().await, 0, "told of again");
    let lines = told(store).await;
    let lines: Vec<_> = lines.iter().filter(|(kind, ..)| kind == DOMAIN_EXPIRING).collect();
    let names: std::collections::HashSet<_> = lines.iter().map(|(_, name, _)| name).collect();
    assert_eq!((lines.len(), names.len()), (25, 25));
    assert!(lines[0].2.starts_with(&format!("the certificate of {} ends at ", lines[0].1)));
    let ending = store.ending(5).await.unwrap();
    assert_eq!((ending.count, ending.some.len()), (25, 5));
    // Those that are mended, in every part, are near their end again some day, and told of again.
    raw.execute(
        "UPDATE certificate SET not_before = not_after WHERE serial IN ('3', '7', '12', '24')",
    )
    .await;
    assert_eq!((settle().await, store.ending(5).await.unwrap().count), (0, 21));
    raw.execute(&raw.ends_soon()).await;
    assert_eq!((settle().await, settle().await), (4, 0));
}

async fn a_certificate_that_was_old_when_it_came_is_found(raw: Raw) {
    let store = &raw.store;
    for n in ["1", "2"] {
        active(store, &format!("n{n}.example.com"), n).await;
    }
    store.add(&imported("brought.example.com", "3")).await.unwrap();
    assert_eq!(store.late_issues(10).await.unwrap().count, 0);
    raw.execute(&format!("{} WHERE serial = '1'", raw.lives(29, 61))).await;
    raw.execute(&format!("{} WHERE serial = '2'", raw.lives(70, 20))).await;
    // What was brought along may be of any age.
    raw.execute(&format!("{} WHERE serial = '3'", raw.lives(70, 20))).await;
    let late = store.late_issues(10).await.unwrap();
    assert_eq!((late.count, late.some.len()), (1, 1));
    let issue = &late.some[0];
    assert_eq!(issue.name.as_str(), "n2.example.com");
    assert!(issue.not_before < issue.stored_at && issue.stored_at < issue.not_after);
    raw.execute("UPDATE domain SET removing_since = created_at").await;
    assert_eq!(store.late_issues(10).await.unwrap().count, 0);
}

/// Many that end sooner, and have all the time they need, hide none that has not.
async fn an_end_is_near_in_proportion_to_the_life(raw: Raw) {
    let store = &raw.store;
    let new: Vec<_> =
        (0..20).map(|n| imported(&format!("n{n:05}.example.com"), &n.to_string())).collect();
    for added in store.add_many(&new).await.unwrap() {
        added.unwrap();
    }
    raw.execute(&raw.lives(6, 2)).await;
    assert_eq!(store.ending(10).await.unwrap(), Ending::default());
    raw.execute(&format!("{} WHERE serial = '7'", raw.lives(81, 9))).await;
    raw.execute(&format!("{} WHERE serial = '8'", raw.lives(80, 11))).await;
    let near = store.ending(10).await.unwrap();
    assert_eq!((near.count, near.some[0].name.as_str()), (1, "n00007.example.com"));
    // The first to end first.
    raw.execute(&format!("{} WHERE serial IN ('9', '10')", raw.lives(90, 0))).await;
    let near = store.ending(1).await.unwrap();
    assert_eq!((near.count, near.some.len()), (3, 1));
    assert!(near.some[0].not_after <= store.ping().await.unwrap());
    assert_eq!(store.settle_expiring(None, &actor(), 1).await.unwrap(), 3);
}
