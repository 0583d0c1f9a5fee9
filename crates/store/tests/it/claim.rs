//! Bare claims: a resource, and perhaps a name, for one orchestration.

use holdfast_store::{ClaimRequest, Error, NewDomain, SharedStore};

use crate::kit::*;

on_both! {
    a_claim_is_the_same_again,
    of_a_hundred_claimants_one_wins_and_all_others_are_told_who,
    no_name_never_conflicts,
    a_name_claimed_without_a_domain_is_taken,
    other_fields_are_named,
    release_frees_and_keeps_history,
    only_its_own_orchestration_may_release,
    a_claim_with_a_live_domain_stays,
    storms_of_claim_and_release_end_free,
}

fn claim(resource: &str, name: Option<&str>, orchestration: &str) -> ClaimRequest {
    ClaimRequest {
        resource: resource.to_owned(),
        name: name.map(host),
        orchestration_id: orchestration.to_owned(),
    }
}

async fn a_claim_is_the_same_again(store: SharedStore) {
    let request = claim("site-1", Some("shop.example.com"), "A");
    let (first, created) = store.claim_resource(&request).await.unwrap();
    assert!(created && first.released_at.is_none() && first.domain_id.is_none());
    let (again, created) = store.claim_resource(&request).await.unwrap();
    assert_eq!((again, created), (first.clone(), false));
    assert_eq!(store.claim_on("site-1").await.unwrap(), Some(first));
    assert_eq!(store.claim_on("site-2").await.unwrap(), None);
}

async fn of_a_hundred_claimants_one_wins_and_all_others_are_told_who(store: SharedStore) {
    let results = at_once(100, |n| {
        let store = store.clone();
        let request = claim("site-1", None, &format!("orchestration {n}"));
        async move { store.claim_resource(&request).await }
    })
    .await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    let since = won[0].as_ref().unwrap().0.created_at;
    for result in lost {
        let Err(Error::ResourceInUse(holder)) = result else { panic!("{result:?}") };
        assert_eq!((holder.resource.as_str(), holder.since), ("site-1", since));
    }
}

async fn no_name_never_conflicts(store: SharedStore) {
    for n in 0..3 {
        let request = claim(&format!("site-{n}"), None, &format!("{n}"));
        assert!(store.claim_resource(&request).await.unwrap().1);
    }
}

async fn a_name_claimed_without_a_domain_is_taken(store: SharedStore) {
    store.claim_resource(&claim("site-1", Some("shop.example.com"), "A")).await.unwrap();
    let refused = store.add(&fresh("shop.example.com")).await.unwrap_err();
    assert!(matches!(refused, Error::NameInUse(holder) if holder.resource == "site-1"));
    let refused = store.claim_resource(&claim("site-2", Some("shop.example.com"), "B")).await;
    assert!(matches!(refused, Err(Error::NameInUse(_))));
    // Its own orchestration moves in.
    let own = NewDomain { resource: Some("site-1".to_owned()), ..request("shop.example.com", "A") };
    assert!(store.add(&own).await.unwrap().created);
}

async fn other_fields_are_named(store: SharedStore) {
    store.claim_resource(&claim("site-1", Some("shop.example.com"), "A")).await.unwrap();
    let field = async |request: ClaimRequest| {
        let refused = store.claim_resource(&request).await.unwrap_err();
        let Error::OrchestrationMismatch { field, .. } = refused else { panic!("{refused}") };
        field
    };
    assert_eq!(field(claim("site-2", Some("shop.example.com"), "A")).await, "resource");
    assert_eq!(field(claim("site-1", Some("other.example.com"), "A")).await, "name");
    assert_eq!(field(claim("site-1", None, "A")).await, "name");
}

async fn release_frees_and_keeps_history(store: SharedStore) {
    let request = claim("site-1", Some("shop.example.com"), "A");
    store.claim_resource(&request).await.unwrap();
    let released = store.release_resource("site-1", "A").await.unwrap();
    assert!(released.released_at.is_some());
    assert_eq!(store.release_resource("site-1", "A").await.unwrap(), released);
    assert_eq!(store.claim_on("site-1").await.unwrap(), Some(released.clone()));
    let (other, created) = store.claim_resource(&claim("site-1", None, "B")).await.unwrap();
    assert!(created);
    assert_eq!(store.claim_on("site-1").await.unwrap(), Some(other));
    // A late replay of what is over is not a new claim.
    assert_eq!(store.claim_resource(&request).await.unwrap(), (released.clone(), false));
    assert_eq!(store.release_resource("site-1", "A").await.unwrap(), released);
}

async fn only_its_own_orchestration_may_release(store: SharedStore) {
    store.claim_resource(&claim("site-1", None, "A")).await.unwrap();
    let refused = store.release_resource("site-1", "B").await.unwrap_err();
    assert!(matches!(refused, Error::ResourceInUse(_)), "{refused}");
    let refused = store.release_resource("site-2", "A").await.unwrap_err();
    assert!(matches!(refused, Error::NotFound("claim")), "{refused}");
    assert!(store.claim_on("site-1").await.unwrap().unwrap().released_at.is_none());
}

async fn a_claim_with_a_live_domain_stays(store: SharedStore) {
    let new = NewDomain { resource: Some("site-1".to_owned()), ..request("shop.example.com", "A") };
    let domain = store.add(&new).await.unwrap().domain;
    let refused = store.release_resource("site-1", "A").await.unwrap_err();
    assert!(
        matches!(&refused, Error::ClaimInUse { domain: by, .. } if *by == domain.id.to_string())
    );
    remove(&store, domain.id).await;
    assert!(store.release_resource("site-1", "A").await.unwrap().released_at.is_some());
}

async fn storms_of_claim_and_release_end_free(store: SharedStore) {
    at_once(12, |n| {
        let store = store.clone();
        async move {
            for round in 0..6 {
                let orchestration = format!("{n}-{round}");
                match store.claim_resource(&claim("site-1", None, &orchestration)).await {
                    Ok((_, true)) => {
                        store.release_resource("site-1", &orchestration).await.unwrap();
                    }
                    Err(Error::ResourceInUse(_) | Error::HolderVanished) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    })
    .await;
    assert!(store.claim_on("site-1").await.unwrap().unwrap().released_at.is_some());
    assert!(store.claim_resource(&claim("site-1", None, "last")).await.unwrap().1);
}
