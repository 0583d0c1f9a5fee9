//! How a CA fails replicas: each by itself, until it answers that one or a person resumes it.

use std::time::Duration;

use holdfast_store::{Account, NewReplica, SharedStore};
use uuid::Uuid;

use crate::{kit::*, raw::Raw};

const WAIT: Duration = Duration::from_secs(60);

on_both! {
    how_the_ca_fails_is_kept_until_it_answers, what_answers_one_replica_ends_no_failure_of_another,
    a_person_who_resumes_lifts_every_wait, failures_of_replicas_that_are_gone_go_too,
}

async fn read(store: &SharedStore) -> Account {
    store.account(DIRECTORY, MANY).await.unwrap().unwrap()
}

async fn how_the_ca_fails_is_kept_until_it_answers(store: SharedStore) {
    let id = account(&store).await;
    assert_eq!((read(&store).await.failing_since, read(&store).await.failure), (None, None));
    store.note_failure(id, "a", "ca-unreachable: no route", WAIT).await.unwrap();
    let first = read(&store).await;
    assert_eq!(first.failure.as_deref(), Some("ca-unreachable: no route"));
    let again = first.asked_again_at.unwrap().since(first.failing_since.unwrap());
    assert!((59..=60).contains(&again.as_secs()), "{again:?}");
    // Whatever it says next, it began when it began.
    store.note_failure(id, "a", "acme-server: 500", WAIT * 2).await.unwrap();
    let second = read(&store).await;
    assert_eq!(second.failing_since, first.failing_since);
    assert_eq!(second.failure.as_deref(), Some("acme-server: 500"));
    store.end_failure(id, "a").await.unwrap();
    let answered = read(&store).await;
    assert_eq!((answered.failing_since, answered.asked_again_at), (None, None));
    // A wait that no replica has comes from a clock that was wrong.
    store.note_failure(id, "a", "acme-server: 500", WAIT * 600).await.unwrap();
    assert_eq!((read(&store).await.failing_since, read(&store).await.failure), (None, None));
}

/// A replica that met a moment's outage, and has nothing left to ask, says nothing more. That the CA answers another one tells then that it
/// is over; one that the CA fails still says so again meanwhile.
async fn what_nobody_repeats_is_over_soon_after_others_get_through(raw: Raw) {
    let store = raw.store.clone();
    let id = account(&store).await;
    for instance in ["idle", "lost"] {
        store.note_failure(id, instance, instance, WAIT / 60).await.unwrap();
    }
    let minute = if raw.is_postgres() { "interval '1 minute'" } else { "60000000" };
    let later = format!(
        "UPDATE ca_failure SET since = since - {minute}, asked_again_at = asked_again_at - {minute}, counts_until = counts_until - {minute}"
    );
    raw.execute(&later).await;
    let since = read(&store).await.failing_since;
    assert!(since.is_some(), "the CA answered nobody");
    store.note_failure(id, "lost", "lost", WAIT).await.unwrap();
    store.end_failure(id, "other").await.unwrap();
    let left = read(&store).await;
    assert_eq!(left.failure.as_deref(), Some("lost"));
    raw.execute(&later).await;
    store.end_failure(id, "other").await.unwrap();
    assert_eq!(
        read(&store).await.failure.as_deref(),
        Some("lost"),
        "it has had no time to say so again"
    );
    raw.execute(&later).await;
    assert_eq!(read(&store).await.failing_since, None);
}

raw_on_both! { what_nobody_repeats_is_over_soon_after_others_get_through }

/// The one that has failed longest is told.
async fn what_answers_one_replica_ends_no_failure_of_another(store: SharedStore) {
    let id = account(&store).await;
    store.note_failure(id, "a", "ca-unreachable: no route", WAIT).await.unwrap();
    let since = read(&store).await.failing_since;
    store.note_failure(id, "b", "acme-server: 500", WAIT).await.unwrap();
    store.note_failure(id, "a", "ca-unreachable: still none", WAIT * 30).await.unwrap();
    store.end_failure(id, "b").await.unwrap();
    let left = read(&store).await;
    assert!(since.is_some() && left.failing_since == since);
    assert_eq!(left.failure.as_deref(), Some("ca-unreachable: still none"));
    let listed = store.ca_accounts(MANY).await.unwrap().remove(0).failing;
    assert_eq!(listed, left.failing_since.zip(left.failure));
    assert!(!store.is_failure_lifted(id, "a").await.unwrap());
    store.note_failure(id, "b", "acme-server: 500", WAIT).await.unwrap();
    store.end_failure(id, "a").await.unwrap();
    assert_eq!(read(&store).await.failure.as_deref(), Some("acme-server: 500"));
}

async fn a_person_who_resumes_lifts_every_wait(store: SharedStore) {
    let id = account(&store).await;
    assert!(!store.is_failure_lifted(id, "a").await.unwrap(), "there is none");
    assert!(!store.resume_account(id, &actor(), "ca").await.unwrap());
    for instance in ["a", "b"] {
        store.note_failure(id, instance, "ca-unreachable: no route", WAIT).await.unwrap();
    }
    assert!(store.resume_account(id, &actor(), "ca").await.unwrap());
    assert!(!store.resume_account(id, &actor(), "ca").await.unwrap(), "nothing is left to lift");
    assert_eq!(read(&store).await.failing_since, None);
    let lifted = store.ping().await.unwrap();
    store.note_failure(id, "a", "ca-unreachable: no route", WAIT).await.unwrap();
    assert!(read(&store).await.failing_since.unwrap() >= lifted, "it begins anew");
    assert!(!store.is_failure_lifted(id, "a").await.unwrap());
    assert!(store.is_failure_lifted(id, "b").await.unwrap());
}

async fn failures_of_replicas_that_are_gone_go_too(store: SharedStore) {
    let id = account(&store).await;
    let replica = NewReplica {
        instance: "here".into(),
        incarnation: Uuid::new_v4(),
        url: "http://127.0.0.1".into(),
        role: "all".into(),
        version: "test".into(),
    };
    store.register_replica(&replica, WAIT).await.unwrap();
    store.note_failure(id, "gone", "ca-unreachable: no route", WAIT).await.unwrap();
    store.note_failure(id, "here", "acme-server: 500", WAIT).await.unwrap();
    store.prune_replicas(None, WAIT).await.unwrap();
    assert_eq!(read(&store).await.failure.as_deref(), Some("acme-server: 500"));
}
