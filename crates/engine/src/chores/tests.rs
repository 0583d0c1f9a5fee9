//! What is scheduled, and that it is what was configured.

use std::collections::BTreeSet;

use holdfast_model::{CertificateSummary, DomainId, Timestamp};
use holdfast_store::{Import, MasterKey, NewCertificate, NewDomain, OpenOptions, Secret};
use holdfast_testkit::Scratch;

use super::*;

async fn stored(directory: &Scratch) -> SharedStore {
    let url = format!("sqlite:{}", directory.path().join("holdfast.db").display());
    holdfast_store::migrate(&url).await.unwrap();
    let key = Some(MasterKey::generate().unwrap());
    holdfast_store::open(&url, key, OpenOptions::default()).await.unwrap()
}

#[tokio::test]
async fn every_kind_that_may_be_over_is_pruned_by_one_task() {
    let directory = Scratch::new().unwrap();
    let store = stored(&directory).await;
    let scheduled: Vec<_> = chores(&store, "here", MINUTE, Retention::default());
    let scheduled: Vec<_> = scheduled.iter().map(Task::name).collect();
    assert_eq!(scheduled.iter().collect::<BTreeSet<_>>().len(), scheduled.len());
    for what in Outdated::ALL {
        let tasks: Vec<_> = pruned(Retention::default()).filter(|one| one.1 == what).collect();
        assert_eq!(tasks.len(), 1, "{what:?}: {tasks:?}");
        assert!(scheduled.contains(&tasks[0].0), "{what:?} is not scheduled");
    }
    for other in ["fold-counts", "count-edges", "forget-edges", "reseal-values", "sweep-renewals"] {
        assert!(scheduled.contains(&other), "{other}");
    }
}

/// What was dropped by a wrong clock is lost.
#[tokio::test]
async fn whatever_is_pruned_waits_while_ages_are_doubted() {
    let directory = Scratch::new().unwrap();
    let store = stored(&directory).await;
    let by_age = chores(&store, "here", MINUTE, Retention::default());
    let by_age: BTreeSet<_> =
        by_age.iter().filter(|task| task.is_by_age()).map(Task::name).collect();
    assert_eq!(by_age, pruned(Retention::default()).map(|one| one.0).collect());
}

#[test]
fn what_users_choose_is_kept_for_as_long_as_they_say() {
    let retention = Retention { history: 91 * DAY, removed: 17 * DAY };
    let age = |what| pruned(retention).find(|one| one.1 == what).unwrap().2;
    assert_eq!(age(Outdated::History), 91 * DAY);
    assert_eq!(age(Outdated::Removed), 17 * DAY);
    assert_eq!(age(Outdated::Claims), 17 * DAY);
    assert_eq!(age(Outdated::Notices), 90 * DAY, "not for users to choose");
}

/// As after a crash in the middle of `key rotate`: the task finds it, and ends it in steps.
#[tokio::test]
async fn a_rotation_that_was_cut_short_is_ended_by_the_task() {
    let directory = Scratch::new().unwrap();
    let store = stored(&directory).await;
    store.cluster_secret().await.unwrap();
    let (rotation, actor) = (
        Rotating::default(),
        Actor { instance: "here".to_owned(), name: "maintenance".to_owned() },
    );
    let step = async || reseal_some(&store, &rotation, &actor).await.unwrap();
    assert_eq!(step().await, Progress::default(), "nothing is rotated");
    store.new_data_key().await.unwrap();
    assert!(store.is_rotating().await.unwrap());
    let mut resealed = 0;
    loop {
        let progress = step().await;
        resealed += progress.done;
        if !progress.more {
            break;
        }
    }
    assert!(resealed >= 1, "{resealed}");
    assert!(!store.is_rotating().await.unwrap() && rotation.lock().await.is_none());
    assert_eq!(step().await, Progress::default(), "it has ended");
}

fn served(number: u32) -> NewDomain {
    let summary = CertificateSummary {
        serial: number.to_string(),
        sha256: format!("sha-{number}"),
        not_before: Timestamp::from_seconds(0),
        not_after: Timestamp::from_seconds(1_700_000_000),
        issuer: "Test CA".to_owned(),
        directory: "imported".to_owned(),
    };
    let key = Secret::from("key".to_owned());
    let certificate = NewCertificate { chain_pem: "chain".to_owned(), key, summary };
    NewDomain {
        id: DomainId::new(),
        name: format!("n{number}.example.com").parse().unwrap(),
        tenant: None,
        resource: None,
        target: "edge.example.net".parse().unwrap(),
        target_given: false,
        edge_group: "default".to_owned(),
        labels: std::collections::BTreeMap::new(),
        orchestration_id: number.to_string(),
        import: Some(Import { certificate }),
        actor: Actor { instance: "here".to_owned(), name: "tester".to_owned() },
    }
}

/// With more certificates near their end than one commit looks at, none waits for the next round.
#[tokio::test]
async fn a_round_over_renewals_goes_on_to_its_end() {
    let directory = Scratch::new().unwrap();
    let store = stored(&directory).await;
    store.add_many(&(0..5).map(served).collect::<Vec<_>>()).await.unwrap();
    let place = Mutex::default();
    let mut more = Vec::new();
    for _ in 0..3 {
        more.push(sweep_some(&store, None, &place, 2).await.unwrap().more);
    }
    assert_eq!(more, [true, true, false]);
}
