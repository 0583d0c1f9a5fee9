//! Lists: by name, keyset-paged, complete whatever is added meanwhile.

use std::collections::HashSet;

use holdfast_model::{Outcome, State};
use holdfast_store::{DomainFilter, Error, NewDomain, Page, SharedStore};

use crate::kit::*;

on_both! {
    pages_are_in_order_and_complete,
    pages_are_complete_while_others_add_and_remove,
    filters_narrow_the_list,
    a_cursor_that_is_none_is_refused,
}

async fn names(store: &SharedStore, filter: &DomainFilter, limit: u32) -> Vec<String> {
    let mut page = Page { limit, after: None };
    let mut names = Vec::new();
    loop {
        let listed = store.domains(filter, &page).await.unwrap();
        assert!(listed.items.len() <= usize::try_from(limit).unwrap());
        names.extend(listed.items.iter().map(|domain| domain.name.to_string()));
        match listed.next {
            Some(next) => page.after = Some(next),
            None => return names,
        }
    }
}

async fn pages_are_in_order_and_complete(store: SharedStore) {
    assert!(names(&store, &DomainFilter::default(), 3).await.is_empty());
    let mut expected = Vec::new();
    for name in [
        "b.example.com",
        "a-b.example.com",
        "a.b.example.com",
        "a1.example.com",
        "z.example.com",
        "xn--mnchen-3ya.example.com",
    ] {
        expected.push(add(&store, name).await.name.to_string());
    }
    expected.sort();
    for limit in [1, 2, 3, 6, 7, 100] {
        assert_eq!(names(&store, &DomainFilter::default(), limit).await, expected);
    }
}

async fn pages_are_complete_while_others_add_and_remove(store: SharedStore) {
    let there: HashSet<_> =
        add_numbered(&store, 300).await.into_iter().map(|domain| domain.name.to_string()).collect();
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..40 {
                let new = add(&store, &format!("m{:03}.example.com", (n * 37) % 100)).await;
                add(&store, &format!("n{:05}x.example.com", (n * 97) % 300)).await;
                if n % 2 == 0 {
                    remove(&store, new.id).await;
                }
            }
        })
    };
    loop {
        let done = writer.is_finished();
        let seen = names(&store, &DomainFilter::default(), 17).await;
        assert!(seen.is_sorted_by(|a, b| a < b), "out of order, or twice");
        let seen: HashSet<_> = seen.into_iter().collect();
        assert!(there.is_subset(&seen));
        if done {
            break;
        }
    }
    writer.await.unwrap();
}

async fn filters_narrow_the_list(store: SharedStore) {
    let of =
        |name: &str, tenant: &str| NewDomain { tenant: Some(tenant.to_owned()), ..fresh(name) };
    for (name, tenant) in [("a.shop.com", "x"), ("ab.shop.com", "y"), ("b.shop.com", "x")] {
        store.add(&of(name, tenant)).await.unwrap();
    }
    let claimed = claim_all(&store, &claimant("w")).await;
    let one = claimed.iter().find(|one| one.domain.name.as_str() == "b.shop.com").unwrap();
    finish(&store, one, Outcome::Accepted).await;
    let with = |state, tenant: Option<&str>, prefix: Option<&str>| DomainFilter {
        state,
        tenant: tenant.map(str::to_owned),
        prefix: prefix.map(str::to_owned),
    };
    let cases: [(DomainFilter, &[&str]); 10] = [
        (with(Some(State::Initial), None, None), &["a.shop.com", "ab.shop.com"]),
        (with(Some(State::DnsVerifying), None, None), &["b.shop.com"]),
        (with(None, Some("x"), None), &["a.shop.com", "b.shop.com"]),
        (with(None, Some("z"), None), &[]),
        (with(Some(State::Initial), Some("x"), None), &["a.shop.com"]),
        (with(None, None, Some("a")), &["a.shop.com", "ab.shop.com"]),
        (with(None, None, Some("A.")), &["a.shop.com"]),
        (with(None, None, Some("a.shop.com")), &["a.shop.com"]),
        (with(None, None, Some("ü")), &[]),
        (with(None, None, Some("a%")), &[]),
    ];
    for (filter, expected) in cases {
        for limit in [1, 10] {
            assert_eq!(names(&store, &filter, limit).await, expected, "{filter:?}");
        }
    }
}

async fn a_cursor_that_is_none_is_refused(store: SharedStore) {
    for after in ["", "not a name", "A.example.com", "x", "'; DROP TABLE domain; --"] {
        let page = Page { limit: 1, after: Some(after.to_owned()) };
        let refused = store.domains(&DomainFilter::default(), &page).await.unwrap_err();
        assert!(matches!(refused, Error::BadCursor(_)), "{after}");
        let refused = store.history(holdfast_model::DomainId::new(), &page).await.unwrap_err();
        assert!(matches!(refused, Error::BadCursor(_)), "{after}");
    }
}
