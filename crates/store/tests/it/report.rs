//! Reports of edges: each counts whole or not at all, and none after a later one.

use holdfast_model::{DomainId, Note, Outcome, Timestamp};
use holdfast_store::{
    Adopt, Adopted, EdgeId, EdgeReport, Error, Observation, Page, ReportOrder, SharedStore,
    Stranger, UNUSABLE,
};

use crate::{
    edge::{deploying, edge, see},
    kit::*,
    raw::Raw,
    stranger::find,
};

on_both! {
    a_late_report_changes_nothing,
    sessions_rise_and_none_is_made_up,
    who_does_not_count_is_heard,
    a_certificate_that_an_edge_cannot_load_is_looked_at_once,
}

raw_on_both! {
    what_cannot_be_told_was_not_adopted,
}

fn order(session: i64, sequence: i64) -> Option<ReportOrder> {
    Some(ReportOrder { session, sequence })
}

fn stranger(file: &str) -> Stranger {
    let names = vec!["shop.example.com".to_owned()];
    Stranger { file: file.to_owned(), names, sha256: None, shadows: true }
}

/// Everything that a report can say, so that it shows when any of it is heard.
fn saying(word: &str, domain: DomainId) -> EdgeReport {
    EdgeReport {
        observations: vec![Observation { domain, sha256: Some(word.to_owned()), error: None }],
        error: Some(Note::new("edge-disk", word)),
        strangers: Some(vec![stranger(word)]),
        mode: Some(word.to_owned()),
        ..EdgeReport::default()
    }
}

/// What is believed of the edge, if it is one and the same throughout.
async fn believed(store: &SharedStore, edge: EdgeId, domain: DomainId) -> String {
    let known = store.edges().await.unwrap().remove(0);
    let files = store.strangers(edge, &Page { limit: 9, after: None }).await.unwrap().items;
    let seen = store.deployment(domain).await.unwrap().seen.unwrap().sha256;
    let said = [
        known.last_error.unwrap().detail,
        known.agent.mode.unwrap(),
        files[0].stranger.file.clone(),
    ];
    assert!(said.iter().all(|word| *word == seen), "{seen}: {said:?}");
    seen
}

async fn a_late_report_changes_nothing(store: SharedStore) {
    let domain = deploying(&store, "shop.example.com", "1").await.domain.id;
    let e1 = edge(&store, "e1", "default").await.id;
    let say = async |word: &str, order| {
        let report = EdgeReport { order, ..saying(word, domain) };
        store.observe(e1, &report, &actor()).await.unwrap();
        believed(&store, e1, domain).await
    };
    let first = store.open_session(e1).await.unwrap();
    assert_eq!(say("a", order(first, 1)).await, "a");
    assert_eq!(say("c", order(first, 3)).await, "c");
    assert_eq!(say("b", order(first, 2)).await, "c", "it was held up");
    assert_eq!(say("c", order(first, 3)).await, "c", "said twice");
    let second = store.open_session(e1).await.unwrap();
    assert_eq!(say("d", order(second, 1)).await, "d", "a new session counts from the beginning");
    assert_eq!(say("late", order(first, 99)).await, "d");
    // Also without all that is seldom said, and as a sign of life.
    let bare = |sequence| EdgeReport { order: order(first, sequence), ..EdgeReport::default() };
    store.observe(e1, &bare(100), &actor()).await.unwrap();
    assert_eq!(believed(&store, e1, domain).await, "d");
}

async fn a_certificate_that_an_edge_cannot_load_is_looked_at_once(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await.id;
    let e1 = edge(&store, "e1", "default").await.id;
    let say = async |code: Option<&'static str>| {
        let error = code.map(|code| Note::new(code, "as the test says"));
        see(&store, e1, domain, None, error).await;
        let claimed = claim_all(&store, &claimant("w")).await;
        for one in &claimed {
            finish(
                &store,
                one,
                Outcome::RenewalLater { look_at: Timestamp::from_seconds(4_000_000_000) },
            )
            .await;
        }
        claimed.len()
    };
    assert_eq!(say(Some("edge-handshake-failed")).await, 0);
    assert_eq!(say(Some(UNUSABLE)).await, 1);
    assert_eq!(say(Some(UNUSABLE)).await, 0, "what is repeated");
    assert_eq!(say(None).await, 0);
    assert_eq!(say(Some(UNUSABLE)).await, 1, "what comes back");
}

async fn sessions_rise_and_none_is_made_up(store: SharedStore) {
    let e1 = edge(&store, "e1", "default").await.id;
    let report = |session| EdgeReport { order: order(session, 1), ..EdgeReport::default() };
    let heard = async |session| store.observe(e1, &report(session), &actor()).await;
    assert!(matches!(heard(1).await, Err(Error::NotFound("edge"))), "none was opened");
    let first = store.open_session(e1).await.unwrap();
    let second = store.open_session(e1).await.unwrap();
    assert!(first < second);
    heard(first).await.unwrap();
    // Of a future that was lost: whoever says so must register again, and is not believed before.
    assert!(matches!(heard(second + 1).await, Err(Error::NotFound("edge"))));
    heard(second).await.unwrap();
    // Neither does one outlive its edge.
    store.remove_edge("e1", &actor()).await.unwrap();
    let back = edge(&store, "e1", "default").await.id;
    let late = store.observe(back, &report(second), &actor()).await;
    assert!(matches!(late, Err(Error::NotFound("edge"))));
    assert!(store.open_session(back).await.unwrap() > second);
    assert!(matches!(store.open_session(e1).await, Err(Error::NotFound("edge"))));
}

async fn who_does_not_count_is_heard(store: SharedStore) {
    let domain = deploying(&store, "shop.example.com", "1").await.domain.id;
    let e1 = edge(&store, "e1", "default").await.id;
    let session = store.open_session(e1).await.unwrap();
    for (word, order) in [("a", None), ("b", order(session, 7)), ("c", None)] {
        let report = EdgeReport { order, ..saying(word, domain) };
        store.observe(e1, &report, &actor()).await.unwrap();
        assert_eq!(believed(&store, e1, domain).await, word);
    }
}

/// Between the end of an adoption and the line that tells of it nothing can fail.
async fn what_cannot_be_told_was_not_adopted(raw: Raw) {
    let store = raw.store.clone();
    active(&store, "shop.example.com", "1").await;
    let e1 = edge(&store, "e1", "default").await.id;
    find(&store, e1, &[stranger("/old.pem")]).await;
    let asked = store.adopt(e1, &Adopt::All, &actor()).await.unwrap();
    let adopted = asked.into_iter().map(|adoption| Adopted { adoption, error: None }).collect();
    let report = EdgeReport { adopted, strangers: Some(Vec::new()), ..EdgeReport::default() };
    raw.execute("ALTER TABLE event RENAME TO away").await;
    store.observe(e1, &report, &actor()).await.unwrap_err();
    raw.execute("ALTER TABLE away RENAME TO event").await;
    let left = async |table: &str| raw.number(&format!("SELECT count(*) FROM {table}")).await;
    assert_eq!((left("adoption").await, left("stranger").await), (1, 1));
    store.observe(e1, &report, &actor()).await.unwrap();
    assert_eq!((left("adoption").await, left("stranger").await), (0, 0));
    let told = raw.number("SELECT count(*) FROM event WHERE kind = 'edge-adopted'").await;
    assert_eq!(told, 1);
}
