//! Chores, and what follows a restore.

use holdfast_model::{Note, Outcome, State, Wanted};
use holdfast_store::{Error, EventCursor, HIGHEST_EPOCH, Products, Revision, SharedStore};

use crate::{kit::*, raw::Raw};

on_both! {
    the_store_answers_and_knows_its_schema,
    a_restore_begins_a_new_epoch,
    what_was_being_deployed_at_a_restore_is_asked_about_once_it_is_served,
}

raw_on_both! {
    the_same_backup_restored_again_repeats_no_number,
    a_restore_goes_above_what_a_clock_ahead_gave_out,
}

async fn the_store_answers_and_knows_its_schema(store: SharedStore) {
    let (first, second) = (store.ping().await.unwrap(), store.ping().await.unwrap());
    assert!(first <= second);
    let (applied, known) = store.schema().await.unwrap();
    assert_eq!(applied, known);
}

async fn a_restore_begins_a_new_epoch(store: SharedStore) {
    let served = active(&store, "a.example.com", "1").await;
    let gone = active(&store, "b.example.com", "2").await;
    remove(&store, gone.id).await;
    add(&store, "c.example.com").await;
    let who = claimant("w");
    into_queue(&store, claim_one(&store, &who).await).await;
    let admitted = admit_one(&store, &who, account(&store).await).await;
    let url =
        Products { order_url: Some("https://ca.test/order/1".to_owned()), ..Products::default() };
    let preparing = step(&store, &admitted, Outcome::OrderCreated, url).await;
    let before = store.latest_revision().await.unwrap();
    let cursor = store.latest_event().await.unwrap();
    let counts = store.counts().await.unwrap();

    let restored = store.restored().await.unwrap();
    assert_eq!((restored.orders, restored.deployments), (1, 1));
    assert!(restored.epoch > before.epoch && restored.epoch < 1 << 53, "{restored:?}");
    // Whoever held a claim holds none; the order is looked at anew.
    let commit = commit_of(
        &store,
        &preparing,
        &Outcome::OrderProcessing { retry_after: None },
        Products::default(),
        true,
    )
    .await;
    assert!(matches!(store.commit(&preparing, &commit).await, Err(Error::ClaimLost)));
    let again = claim_one(&store, &who).await;
    assert_eq!((again.domain.id, again.order), (preparing.domain.id, preparing.order));
    // Edges list anew, and find everything.
    let gone = store.changes("default", before, 10).await.unwrap_err();
    assert!(matches!(gone, Error::RevisionGone { .. }));
    let changes = store.changes("default", Revision::default(), 10).await.unwrap();
    let names: Vec<_> = changes
        .items
        .iter()
        .map(|change| (change.name.to_string(), change.certificate.is_some()))
        .collect();
    assert_eq!(names, [("a.example.com".to_owned(), true), ("b.example.com".to_owned(), false)]);
    assert!(changes.items.iter().all(|change| change.revision > before));
    assert!(store.bundle_named(&served.name).await.unwrap().is_some());
    // The stream goes on behind every cursor there was, also one of the future that is lost.
    assert_eq!(store.counts().await.unwrap(), counts);
    add(&store, "d.example.com").await;
    let lost = EventCursor { id: cursor.id + 1_000, xid: cursor.xid };
    for after in [cursor, lost] {
        assert_eq!(store.events_after(after, 10).await.unwrap().len(), 1, "{after}");
    }
    assert!(store.latest_event().await.unwrap() > lost);
    let initial =
        store.counts().await.unwrap().into_iter().find(|(state, _)| *state == State::Initial);
    assert_eq!(initial, Some((State::Initial, 1)));
    store.fold_counts(None).await.unwrap();
    assert!(store.counts().await.unwrap().contains(&(State::Initial, 1)));
}

/// Its certificate may have been revoked since the backup, as that of a domain at rest.
async fn what_was_being_deployed_at_a_restore_is_asked_about_once_it_is_served(store: SharedStore) {
    let who = claimant("w");
    let account = account(&store).await;
    let mut deploying = Vec::new();
    for name in ["deploying", "failed"] {
        add(&store, &format!("{name}.example.com")).await;
        into_queue(&store, claim_one(&store, &who).await).await;
        let downloading = into_download(&store, admit_one(&store, &who, account).await, name).await;
        deploying.push(issue(&store, &downloading, name).await);
    }
    let note = Note::new("edge-refused", "no room");
    finish(&store, &deploying[1], Outcome::DeploymentRefused { note }).await;
    store.restored().await.unwrap();
    let failed = deploying.remove(1).domain.id;
    store.want(failed, Wanted::Retry, &actor()).await.unwrap();
    for claimed in claim_all(&store, &who).await {
        let claimed = match claimed.domain.state {
            State::CertificateDeploying => claimed,
            _ => step(&store, &claimed, Outcome::TimeToRetry, Products::default()).await,
        };
        let served = finish(&store, &claimed, Outcome::DeploymentSeen).await.domain;
        assert_eq!(served.state, State::Active);
    }
    let due = claim_all(&store, &who).await;
    assert_eq!(due.len(), 2, "both are looked at now: {due:?}");
    let later = store.ping().await.unwrap().plus(HOLD * 100);
    for claimed in due {
        assert_eq!(claimed.domain.state, State::Active);
        finish(&store, &claimed, Outcome::RenewalLater { look_at: later }).await;
    }
    assert!(claim_all(&store, &who).await.is_empty(), "once");
}

/// What a second restore must not repeat: epochs that edges follow, places in the event log, terms that fence.
async fn the_same_backup_restored_again_repeats_no_number(raw: Raw) {
    active(&raw.store, "a.example.com", "1").await;
    raw.execute(&raw.lease_row("leader", 7)).await;
    let before = raw.store.latest_event().await.unwrap();
    let backup = Numbers::read(&raw).await;
    let mut seen = vec![(backup.epoch, before, backup.term)];
    for round in 0..3 {
        backup.write(&raw).await;
        let restored = raw.store.restored().await.unwrap();
        add(&raw.store, &format!("since-{round}.example.com")).await;
        let newest = raw.store.latest_event().await.unwrap();
        let now = Numbers::read(&raw).await;
        assert_eq!(now.epoch, restored.epoch);
        // A database whose clock is right goes on above every life before it.
        let (epoch, event, term) = *seen.last().unwrap();
        assert!(now.epoch != epoch && now.term != term, "{now:?} repeats {seen:?}");
        assert!(now.epoch >> 15 >= epoch >> 15 && now.epoch > backup.epoch, "{now:?} {seen:?}");
        assert!(now.term >> 15 >= term >> 15 && now.term > backup.term, "{now:?} {seen:?}");
        assert!(newest.xid != event.xid && newest > before, "{newest} {seen:?}");
        assert!(now.epoch < 1 << 53 && now.term < 1 << 53, "exact as JSON numbers: {now:?}");
        seen.push((now.epoch, newest, now.term));
    }
}

/// A restore under a clock that was years ahead, then another of an older backup under the right one: edges, streams and holders of leases
/// remember numbers of the first.
async fn a_restore_goes_above_what_a_clock_ahead_gave_out(raw: Raw) {
    active(&raw.store, "a.example.com", "1").await;
    raw.execute(&raw.lease_row("leader", 7)).await;
    let backup = Numbers::read(&raw).await;
    let now = raw.store.ping().await.unwrap().as_micros() / 1_000_000;
    let ahead = (now + 3 * 365 * 24 * 3600) << 15;
    raw.store.restored_above(ahead, None).await.unwrap();
    add(&raw.store, "since.example.com").await;
    let (seen, event) = (Numbers::read(&raw).await, raw.store.latest_event().await.unwrap());
    assert!(seen.epoch > ahead);
    backup.write(&raw).await;
    // The clock alone does not lead there.
    assert!(raw.store.restored().await.unwrap().epoch < ahead);
    raw.store.restored_above(seen.epoch, None).await.unwrap();
    add(&raw.store, "again.example.com").await;
    let (now, newest) = (Numbers::read(&raw).await, raw.store.latest_event().await.unwrap());
    assert!(now.epoch > seen.epoch && now.term > seen.term && newest > event, "{now:?} {seen:?}");
    // What nobody can have seen leads no further than to what still fits.
    let highest = raw.store.restored_above(i64::MAX, None).await.unwrap().epoch;
    assert!(highest < 1 << 53 && highest > HIGHEST_EPOCH, "{highest}");
    raw.store.restored().await.unwrap();
}

/// The numbers that rise with a restore.
#[derive(Debug)]
struct Numbers {
    epoch: i64,
    log: i64,
    term: i64,
}

impl Numbers {
    async fn read(raw: &Raw) -> Self {
        Self {
            epoch: raw.number("SELECT epoch FROM revision").await,
            log: raw.number(&format!("SELECT {} FROM event_log", raw.log_column())).await,
            term: raw.number("SELECT term FROM lease WHERE name = 'leader'").await,
        }
    }

    /// As a backup has them.
    async fn write(&self, raw: &Raw) {
        let (log, column) = (self.log, raw.log_column());
        raw.execute(&format!("UPDATE revision SET epoch = {}", self.epoch)).await;
        raw.execute(&format!("UPDATE event_log SET {column} = {log}")).await;
        raw.execute(&format!("UPDATE lease SET term = {}", self.term)).await;
    }
}
