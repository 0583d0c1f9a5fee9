//! Adding: one orchestration owns a name at a time, its replays are the same record, others are refused and told who.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use holdfast_model::{DomainId, State, Timestamp};
use holdfast_store::{
    ClaimRequest, DomainPatch, Error, EventBody, NewDomain, Outdated, Page, SharedStore,
};

use crate::kit::*;

on_both! {
    first_attempt_makes_a_domain,
    replay_gives_the_same_record,
    a_replay_gives_the_same_record_until_it_is_removed,
    other_fields_are_named,
    another_orchestration_is_refused_and_told_who,
    a_resource_has_one_owner,
    of_a_hundred_claimants_one_wins_and_all_others_are_told_who,
    a_storm_of_replays_makes_one_record,
    a_name_is_free_after_the_teardown_only,
    release_and_reuse_under_load_never_gives_two_owners,
    a_resource_claimed_before_is_adopted,
    adopting_respects_other_owners,
    asking_first_writes_nothing,
    a_batch_has_a_result_each,
    a_batch_is_the_same_again,
    batches_that_cross_do_not_deadlock,
    an_import_comes_with_its_certificate,
}

async fn first_attempt_makes_a_domain(store: SharedStore) {
    let new = NewDomain {
        tenant: Some("acme".to_owned()),
        labels: BTreeMap::from([("plan".to_owned(), "gold \"1\"".to_owned())]),
        ..fresh("shop.example.com")
    };
    let added = store.add(&new).await.unwrap();
    assert!(added.created);
    let domain = added.domain;
    assert_eq!((domain.id, domain.state, domain.version), (new.id, State::Initial, 1));
    assert_eq!((&domain.tenant, &domain.labels), (&new.tenant, &new.labels));
    assert_eq!(domain.resource, new.id.to_string());
    assert_eq!(store.domain(new.id).await.unwrap().as_ref(), Some(&domain));
    assert_eq!(store.domain_named(&new.name).await.unwrap().as_ref(), Some(&domain));
    let history = store.history(new.id, &Page { limit: 10, after: None }).await.unwrap().items;
    assert_eq!(history.len(), 1);
    assert!(matches!(
        history[0].body,
        EventBody::Transition { from: None, to: Some(State::Initial), .. }
    ));
    let claim = store.claim_on(&domain.resource).await.unwrap().unwrap();
    assert_eq!((claim.domain_id, claim.name.as_ref()), (Some(new.id), Some(&new.name)));
}

async fn replay_gives_the_same_record(store: SharedStore) {
    let first = store.add(&request("shop.example.com", "A")).await.unwrap();
    let again = store.add(&request("shop.example.com", "A")).await.unwrap();
    assert!(!again.created);
    assert_eq!(again.domain, first.domain);
    assert_eq!(store.add_many(&[request("shop.example.com", "A")]).await.unwrap().len(), 1);
}

async fn a_replay_gives_the_same_record_until_it_is_removed(store: SharedStore) {
    let first = store.add(&request("shop.example.com", "A")).await.unwrap().domain;
    let patch = DomainPatch {
        tenant: Some(Some("moved".to_owned())),
        resource: Some("moved".to_owned()),
        edge_group: Some("eu".to_owned()),
        labels: Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])),
    };
    store.patch(first.id, None, &patch, &actor()).await.unwrap();
    store.patch(first.id, None, &DomainPatch::default(), &actor()).await.unwrap();
    let again = store.add(&request("shop.example.com", "A")).await.unwrap();
    assert_eq!((again.created, again.domain.id), (false, first.id));
    assert_eq!(again.domain.resource, "moved");
    store.remove(first.id, false, &actor()).await.unwrap();
    assert!(
        store.add(&request("shop.example.com", "A")).await.unwrap().domain.removing_since.is_some()
    );
    tear_down(&store, first.id).await;
    let removed_at = store.domain(first.id).await.unwrap().unwrap().removed_at.unwrap();
    is_told_of_the_removal(&store, first.id, removed_at).await;
    let other = NewDomain { tenant: Some("t".to_owned()), ..request("shop.example.com", "A") };
    let refused = store.add(&other).await.unwrap_err();
    assert!(matches!(refused, Error::OrchestrationMismatch { field: "tenant", .. }), "{refused}");

    // Also when nothing but the claim is left of it.
    while store.fold_counts(None).await.unwrap() > 0 {}
    while store.prune(None, Outdated::Removed, Duration::ZERO, 100).await.unwrap().done > 0 {}
    assert!(store.domain(first.id).await.unwrap().is_none());
    is_told_of_the_removal(&store, first.id, removed_at).await;
    let refused = store.add(&request("other.example.com", "A")).await.unwrap_err();
    assert!(matches!(refused, Error::OrchestrationMismatch { field: "name", .. }), "{refused}");
    assert!(store.add(&request("shop.example.com", "B")).await.unwrap().created);
}

/// By itself, in a batch and in a dry run.
async fn is_told_of_the_removal(store: &SharedStore, id: DomainId, at: Timestamp) {
    let replay = request("shop.example.com", "A");
    let many = store.add_many(std::slice::from_ref(&replay)).await.unwrap().remove(0);
    for refused in [
        store.add(&replay).await.unwrap_err(),
        many.unwrap_err(),
        store.would_add(&replay).await.unwrap_err(),
    ] {
        let told = matches!(&refused, Error::Removed { domain, removed_at, .. } if (*domain, *removed_at) == (id, at));
        assert!(told, "{refused:?}");
    }
}

async fn other_fields_are_named(store: SharedStore) {
    let original = NewDomain {
        tenant: Some("t".to_owned()),
        resource: Some("r".to_owned()),
        target_given: true,
        ..request("shop.example.com", "A")
    };
    store.add(&original).await.unwrap();
    let again = || NewDomain { id: DomainId::new(), ..original.clone() };
    assert!(!store.add(&again()).await.unwrap().created);
    let cases = [
        ("name", NewDomain { name: host("other.example.com"), ..again() }),
        ("tenant", NewDomain { tenant: None, ..again() }),
        ("resource", NewDomain { resource: None, ..again() }),
        ("resource", NewDomain { resource: Some("s".to_owned()), ..again() }),
        ("target", NewDomain { target: host("other.example.net"), ..again() }),
        ("edge_group", NewDomain { edge_group: "eu".to_owned(), ..again() }),
        (
            "labels",
            NewDomain { labels: BTreeMap::from([(String::new(), String::new())]), ..again() },
        ),
        ("certificate", NewDomain { import: imported("x.example.com", "1").import, ..again() }),
    ];
    for (expected, new) in cases {
        let refused = store.add(&new).await.unwrap_err();
        let Error::OrchestrationMismatch { field, .. } = refused else { panic!("{refused}") };
        assert_eq!(field, expected);
    }
    // What was not given is not compared.
    let target = host("other.example.net");
    assert!(
        !store.add(&NewDomain { target, target_given: false, ..again() }).await.unwrap().created
    );
}

async fn another_orchestration_is_refused_and_told_who(store: SharedStore) {
    let first =
        NewDomain { resource: Some("site-1".to_owned()), ..request("shop.example.com", "A") };
    let held = store.add(&first).await.unwrap().domain;
    let refused = store.add(&request("shop.example.com", "B")).await.unwrap_err();
    let text = refused.to_string();
    let Error::NameInUse(holder) = refused else { panic!("{text}") };
    assert_eq!((holder.resource.as_str(), holder.since), ("site-1", held.created_at));
    assert!(text.contains("already in use by `site-1`"), "{text}");
}

async fn a_resource_has_one_owner(store: SharedStore) {
    let with = |name, orchestration| NewDomain {
        resource: Some("site-1".to_owned()),
        ..request(name, orchestration)
    };
    store.add(&with("a.example.com", "A")).await.unwrap();
    let refused = store.add(&with("b.example.com", "B")).await.unwrap_err();
    assert!(matches!(refused, Error::ResourceInUse(holder) if holder.resource == "site-1"));
    assert!(store.domain_named(&host("b.example.com")).await.unwrap().is_none());
}

async fn of_a_hundred_claimants_one_wins_and_all_others_are_told_who(store: SharedStore) {
    let results = at_once(100, |n| {
        let store = store.clone();
        let resource = Some(format!("site-{n}"));
        let new = NewDomain { resource, ..fresh("shop.example.com") };
        async move { (new.resource.clone(), store.add(&new).await) }
    })
    .await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(|(_, result)| result.is_ok());
    assert_eq!(won.len(), 1);
    let winner = won[0].0.clone().unwrap();
    let since = won[0].1.as_ref().unwrap().domain.created_at;
    for (_, result) in lost {
        let Err(Error::NameInUse(holder)) = result else { panic!("{result:?}") };
        assert_eq!((&holder.resource, holder.since), (&winner, since));
    }
}

async fn a_storm_of_replays_makes_one_record(store: SharedStore) {
    let ids = at_once(60, |n| {
        let store = store.clone();
        let name = if n % 3 == 0 { "a" } else { "b" };
        let new = request(&format!("{name}.example.com"), name);
        async move {
            match n % 2 {
                0 => store.add(&new).await,
                _ => store.add_many(&[new]).await.unwrap().remove(0),
            }
        }
    })
    .await;
    let ids: Vec<_> = ids.into_iter().map(|result| result.unwrap()).collect();
    let made = ids.iter().filter(|added| added.created).count();
    let distinct: HashSet<_> = ids.iter().map(|added| added.domain.id).collect();
    assert_eq!((made, distinct.len()), (2, 2));
}

async fn a_name_is_free_after_the_teardown_only(store: SharedStore) {
    let first = add(&store, "shop.example.com").await;
    store.remove(first.id, false, &actor()).await.unwrap();
    // Being removed is not yet removed.
    let refused = store.add(&fresh("shop.example.com")).await.unwrap_err();
    assert!(matches!(refused, Error::NameInUse(_)), "{refused}");
    assert!(store.domain_named(&host("shop.example.com")).await.unwrap().is_some());
    tear_down(&store, first.id).await;
    let second = add(&store, "shop.example.com").await;
    assert_ne!(first.id, second.id);
    assert!(store.domain(first.id).await.unwrap().unwrap().removed_at.is_some());
    let named = store.domain_named(&host("shop.example.com")).await.unwrap().unwrap();
    assert_eq!(named.id, second.id);
}

async fn release_and_reuse_under_load_never_gives_two_owners(store: SharedStore) {
    at_once(8, |_| {
        let store = store.clone();
        async move {
            for _ in 0..5 {
                match store.add(&fresh("shop.example.com")).await {
                    Ok(added) => remove(&store, added.domain.id).await,
                    Err(Error::NameInUse(_) | Error::HolderVanished) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    })
    .await;
    assert!(store.domain_named(&host("shop.example.com")).await.unwrap().is_none());
    assert!(add(&store, "shop.example.com").await.removed_at.is_none());
}

async fn a_resource_claimed_before_is_adopted(store: SharedStore) {
    let bare = ClaimRequest {
        resource: "site-1".to_owned(),
        name: None,
        orchestration_id: "A".to_owned(),
    };
    let (claim, created) = store.claim_resource(&bare).await.unwrap();
    assert!(created);
    let new = NewDomain { resource: Some("site-1".to_owned()), ..request("shop.example.com", "A") };
    assert!(store.would_add(&new).await.unwrap());
    let added = store.add(&new).await.unwrap();
    assert!(added.created);
    let adopted = store.claim_on("site-1").await.unwrap().unwrap();
    assert_eq!(adopted.domain_id, Some(added.domain.id));
    assert_eq!(adopted.created_at, claim.created_at);
    assert_eq!(adopted.name, Some(new.name.clone()));
    // Both requests are the same again.
    assert!(!store.add(&new).await.unwrap().created);
    let (again, created) = store.claim_resource(&bare).await.unwrap();
    assert_eq!((again, created), (adopted, false));
}

async fn adopting_respects_other_owners(store: SharedStore) {
    let claim = |resource: &str, orchestration: &str| ClaimRequest {
        resource: resource.to_owned(),
        name: None,
        orchestration_id: orchestration.to_owned(),
    };
    add(&store, "taken.example.com").await;
    store.claim_resource(&claim("site-1", "A")).await.unwrap();
    let with = |resource: &str, name: &str| NewDomain {
        resource: Some(resource.to_owned()),
        ..request(name, "A")
    };
    let refused = store.add(&with("site-1", "taken.example.com")).await.unwrap_err();
    assert!(matches!(refused, Error::NameInUse(_)), "{refused}");
    let refused = store.add(&with("site-2", "free.example.com")).await.unwrap_err();
    assert!(matches!(refused, Error::OrchestrationMismatch { field: "resource", .. }), "{refused}");
    let other = NewDomain { resource: Some("site-1".to_owned()), ..fresh("free.example.com") };
    assert!(matches!(store.add(&other).await, Err(Error::ResourceInUse(_))));
    store.release_resource("site-1", "A").await.unwrap();
    let refused = store.add(&with("site-1", "free.example.com")).await.unwrap_err();
    assert!(matches!(refused, Error::OrchestrationMismatch { field: "claim", .. }), "{refused}");
}

async fn asking_first_writes_nothing(store: SharedStore) {
    let new = request("shop.example.com", "A");
    assert!(store.would_add(&new).await.unwrap());
    assert!(store.domain_named(&new.name).await.unwrap().is_none());
    store.add(&new).await.unwrap();
    assert!(!store.would_add(&request("shop.example.com", "A")).await.unwrap());
    let refused = store.would_add(&request("shop.example.com", "B")).await.unwrap_err();
    assert!(matches!(refused, Error::NameInUse(_)));
    let refused = store.would_add(&request("other.example.com", "A")).await.unwrap_err();
    assert!(matches!(refused, Error::OrchestrationMismatch { field: "name", .. }));
}

async fn a_batch_has_a_result_each(store: SharedStore) {
    add(&store, "taken.example.com").await;
    let new = [
        request("one.example.com", "1"),
        request("taken.example.com", "2"),
        request("two.example.com", "3"),
        request("one.example.com", "4"),
        request("one.example.com", "1"),
        request("three.example.com", "3"),
    ];
    let results = store.add_many(&new).await.unwrap();
    let said: Vec<_> = results
        .iter()
        .map(|result| match result {
            Ok(added) if added.created => "created",
            Ok(_) => "same",
            Err(Error::NameInUse(_)) => "name",
            Err(Error::OrchestrationMismatch { .. }) => "mismatch",
            Err(error) => panic!("{error}"),
        })
        .collect();
    assert_eq!(said, ["created", "name", "created", "name", "same", "mismatch"]);
    assert_eq!(results[0].as_ref().unwrap().domain.id, results[4].as_ref().unwrap().domain.id);
}

async fn a_batch_is_the_same_again(store: SharedStore) {
    let new: Vec<_> = (0..1_000).map(|n| fresh(&format!("n{n}.example.com"))).collect();
    let first = store.add_many(&new).await.unwrap();
    assert!(first.iter().all(|result| result.as_ref().is_ok_and(|added| added.created)));
    let again = store.add_many(&new).await.unwrap();
    for (first, again) in first.iter().zip(&again) {
        let (first, again) = (first.as_ref().unwrap(), again.as_ref().unwrap());
        assert_eq!((again.created, &again.domain), (false, &first.domain));
    }
    let mut seen = HashSet::new();
    let mut page = Page { limit: 1_000, after: None };
    loop {
        let listed = store.domains(&Default::default(), &page).await.unwrap();
        seen.extend(listed.items.into_iter().map(|domain| domain.id));
        match listed.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 1_000);
}

async fn batches_that_cross_do_not_deadlock(store: SharedStore) {
    let won = at_once(6, |n| {
        let store = store.clone();
        let mut new: Vec<_> = (0..50)
            .map(|m| NewDomain {
                resource: Some(format!("r{}", 49 - m)),
                ..fresh(&format!("n{m}.example.com"))
            })
            .collect();
        if n % 2 == 0 {
            new.reverse();
        }
        async move {
            let results = store.add_many(&new).await.unwrap();
            results.iter().filter(|result| result.is_ok()).count()
        }
    })
    .await;
    assert_eq!(won.iter().sum::<usize>(), 50);
}

async fn an_import_comes_with_its_certificate(store: SharedStore) {
    let new = imported("shop.example.com", "7");
    let added = store.add(&new).await.unwrap();
    let summary = &new.import.as_ref().unwrap().certificate.summary;
    assert_eq!(added.domain.certificate.as_ref(), Some(summary));
    let bundle = store.bundle(new.id).await.unwrap().unwrap();
    assert_eq!(bundle.key.expose(), b"key 7");
    assert_eq!(bundle.chain_pem, "chain 7");
    // Kept, but not deployed before a worker has looked at it.
    assert!(store.bundle_named(&new.name).await.unwrap().is_none());
    assert!(!store.add(&NewDomain { id: DomainId::new(), ..new.clone() }).await.unwrap().created);
    let other = NewDomain { import: imported("x.example.com", "8").import, ..new };
    let refused = store.add(&other).await.unwrap_err();
    assert!(matches!(refused, Error::OrchestrationMismatch { field: "certificate", .. }));
}
