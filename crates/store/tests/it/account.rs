//! Accounts: made once, whoever asks; their key journaled before the CA hears of it.

use std::time::Duration;

use holdfast_store::{Account, AccountId, Error, NewAccount, Secret, SharedStore};

use crate::kit::*;

on_both! {
    whoever_asks_all_get_the_same_account,
    an_account_is_registered_and_forgotten,
    an_account_that_is_not_accepted_is_marked_until_it_is_another,
    the_first_issuer_is_pinned_until_it_is_forgotten,
    the_next_key_is_journaled_once_and_becomes_the_key,
    terms_are_kept_and_agreed_to,
}

fn new(directory: &str, key: &str) -> NewAccount {
    NewAccount {
        directory: directory.to_owned(),
        key: Secret::from(key.to_owned()),
        email: Some("ops@example.com".to_owned()),
    }
}

async fn read(store: &SharedStore) -> Account {
    store.account(DIRECTORY, MANY).await.unwrap().unwrap()
}

async fn whoever_asks_all_get_the_same_account(store: SharedStore) {
    assert!(store.account(DIRECTORY, MANY).await.unwrap().is_none());
    let accounts = at_once(20, |n| {
        let store = store.clone();
        async move { store.journal_account(&new(DIRECTORY, &format!("key {n}"))).await.unwrap() }
    })
    .await;
    let first = read(&store).await;
    for account in accounts {
        assert_eq!((account.id, &account.key), (first.id, &first.key));
    }
    let other = store.journal_account(&new("https://other.test", "other")).await.unwrap();
    assert_ne!(other.id, first.id);
}

async fn an_account_is_registered_and_forgotten(store: SharedStore) {
    let id = store.journal_account(&new(DIRECTORY, "key")).await.unwrap().id;
    assert_eq!(read(&store).await.url, None);
    store.account_registered(id, "https://ca.test/account/1", None).await.unwrap();
    let registered = read(&store).await;
    assert_eq!(registered.url.as_deref(), Some("https://ca.test/account/1"));
    assert_eq!(registered.email.as_deref(), Some("ops@example.com"));
    store
        .account_registered(id, "https://ca.test/account/1", Some("new@example.com"))
        .await
        .unwrap();
    assert_eq!(read(&store).await.email.as_deref(), Some("new@example.com"));
    store.account_forgotten(id).await.unwrap();
    let forgotten = read(&store).await;
    assert_eq!((forgotten.url, forgotten.key.expose()), (None, b"key".as_slice()));
    let nobody = AccountId(uuid::Uuid::new_v4());
    assert!(matches!(store.account_forgotten(nobody).await, Err(Error::NotFound("account"))));
}

async fn an_account_that_is_not_accepted_is_marked_until_it_is_another(store: SharedStore) {
    let id = store.journal_account(&new(DIRECTORY, "key")).await.unwrap().id;
    store.account_registered(id, "https://ca.test/account/1", None).await.unwrap();
    assert_eq!(read(&store).await.unusable, None);
    store.mark_account(id, Some("it is deactivated")).await.unwrap();
    // It outlives every pause, and a change of what is the same account.
    store.pause_account(id, Duration::ZERO, "slow down").await.unwrap();
    store.account_registered(id, "https://ca.test/account/1", Some("x@example.com")).await.unwrap();
    let marked = read(&store).await;
    assert_eq!(
        (marked.unusable.as_deref(), marked.paused_until),
        (Some("it is deactivated"), None)
    );
    store.mark_account(id, None).await.unwrap();
    assert_eq!(read(&store).await.unusable, None);
    store.mark_account(id, Some("it is revoked")).await.unwrap();
    store.account_forgotten(id).await.unwrap();
    assert_eq!(read(&store).await.unusable.as_deref(), Some("it is revoked"));
    store.account_registered(id, "https://ca.test/account/2", None).await.unwrap();
    assert_eq!(read(&store).await.unusable, None);
}

async fn the_first_issuer_is_pinned_until_it_is_forgotten(store: SharedStore) {
    let id = store.journal_account(&new(DIRECTORY, "key")).await.unwrap().id;
    store.account_registered(id, "https://ca.test/account/1", None).await.unwrap();
    assert_eq!(read(&store).await.pin, None);
    assert_eq!(store.pin_issuer(id, "one").await.unwrap(), "one");
    assert_eq!(store.pin_issuer(id, "two").await.unwrap(), "one");
    assert_eq!(read(&store).await.pin.as_deref(), Some("one"));
    store.unpin_issuer(id).await.unwrap();
    assert_eq!(store.pin_issuer(id, "two").await.unwrap(), "two");
    // Another account may be at another CA that answers there now.
    store.account_forgotten(id).await.unwrap();
    assert_eq!(read(&store).await.pin, None);
    let nobody = AccountId(uuid::Uuid::new_v4());
    assert!(matches!(store.pin_issuer(nobody, "x").await, Err(Error::NotFound("account"))));
    assert!(matches!(store.unpin_issuer(nobody).await, Err(Error::NotFound("account"))));
}

async fn the_next_key_is_journaled_once_and_becomes_the_key(store: SharedStore) {
    let id = store.journal_account(&new(DIRECTORY, "old")).await.unwrap().id;
    let secret = |text: &str| Secret::from(text.to_owned());
    let journaled = store.journal_next_key(id, &secret("next")).await.unwrap();
    assert_eq!(journaled, secret("next"));
    assert_eq!(store.journal_next_key(id, &secret("another")).await.unwrap(), secret("next"));
    let under_way = read(&store).await;
    assert_eq!((under_way.key, under_way.next_key), (secret("old"), Some(secret("next"))));
    store.account_key_changed(id).await.unwrap();
    store.account_key_changed(id).await.unwrap();
    let changed = read(&store).await;
    assert_eq!((changed.key, changed.next_key), (secret("next"), None));
    assert_eq!(store.journal_next_key(id, &secret("third")).await.unwrap(), secret("third"));
}

async fn terms_are_kept_and_agreed_to(store: SharedStore) {
    assert!(store.terms(DIRECTORY).await.unwrap().is_none());
    store.keep_terms(DIRECTORY, "https://ca.test/terms-1", false).await.unwrap();
    let seen = store.terms(DIRECTORY).await.unwrap().unwrap();
    assert_eq!((seen.url.as_str(), seen.agreed_at), ("https://ca.test/terms-1", None));
    store.keep_terms(DIRECTORY, "https://ca.test/terms-1", true).await.unwrap();
    let agreed = store.terms(DIRECTORY).await.unwrap().unwrap().agreed_at;
    assert!(agreed.is_some());
    store.keep_terms(DIRECTORY, "https://ca.test/terms-1", false).await.unwrap();
    assert_eq!(store.terms(DIRECTORY).await.unwrap().unwrap().agreed_at, agreed);
    // Other terms were not agreed to.
    store.keep_terms(DIRECTORY, "https://ca.test/terms-2", false).await.unwrap();
    let other = store.terms(DIRECTORY).await.unwrap().unwrap();
    assert_eq!(
        (other.agreed_at, other.replaced.as_deref()),
        (None, Some("https://ca.test/terms-1"))
    );
    // Only terms that were agreed to are worth remembering.
    store.keep_terms(DIRECTORY, "https://ca.test/terms-3", true).await.unwrap();
    let third = store.terms(DIRECTORY).await.unwrap().unwrap();
    assert_eq!(third.replaced.as_deref(), Some("https://ca.test/terms-1"));
    assert!(third.agreed_at.is_some());
}
