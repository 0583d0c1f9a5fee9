//! Tokens: kept as hashes, found by hash, revoked for good.

use holdfast_store::{Error, NewToken, Scope, SharedStore, TokenId};

use crate::kit::at_once;

on_both! {
    a_token_is_found_by_its_hash_until_revoked,
    the_same_hash_is_the_same_token,
    the_first_is_one_however_many_make_it,
}

fn new(name: &str, byte: u8, scope: Scope) -> NewToken {
    NewToken {
        name: name.to_owned(),
        scope,
        hash: [byte; 32],
        edge: (scope == Scope::Edge).then(|| "e1".to_owned()),
        group: (scope == Scope::Edge).then(|| "eu".to_owned()),
    }
}

async fn a_token_is_found_by_its_hash_until_revoked(store: SharedStore) {
    for (byte, scope) in (1..).zip(Scope::ALL) {
        let kept = store.keep_token(&new(scope.as_str(), byte, scope)).await.unwrap();
        assert_eq!(store.token(&[byte; 32]).await.unwrap().as_ref(), Some(&kept));
        assert_eq!(kept.edge.is_some(), scope == Scope::Edge);
    }
    assert_eq!(store.token(&[9; 32]).await.unwrap(), None);
    let first = store.token(&[1; 32]).await.unwrap().unwrap();
    store.revoke_token(first.id).await.unwrap();
    assert_eq!(store.token(&[1; 32]).await.unwrap(), None);
    let revoked_at = store.tokens().await.unwrap()[0].revoked_at;
    assert!(revoked_at.is_some());
    store.revoke_token(first.id).await.unwrap();
    assert_eq!(store.tokens().await.unwrap()[0].revoked_at, revoked_at);
    assert_eq!(store.tokens().await.unwrap().len(), 3);
    let nobody = TokenId(uuid::Uuid::new_v4());
    assert!(matches!(store.revoke_token(nobody).await, Err(Error::NotFound("token"))));
}

async fn the_same_hash_is_the_same_token(store: SharedStore) {
    let first = store.keep_token(&new("first", 1, Scope::Admin)).await.unwrap();
    assert_eq!(store.keep_token(&new("second", 1, Scope::Read)).await.unwrap(), first);
    store.revoke_token(first.id).await.unwrap();
    let again = store.keep_token(&new("first", 1, Scope::Admin)).await.unwrap();
    assert!(again.revoked_at.is_some());
}

async fn the_first_is_one_however_many_make_it(store: SharedStore) {
    let new = |n: usize| new("admin", u8::try_from(n).unwrap(), Scope::Admin);
    let kept = at_once(16, |n| {
        let (store, new) = (store.clone(), new(n));
        async move { store.keep_first_token(&new).await.unwrap().map(|token| (n, token)) }
    })
    .await;
    let kept: Vec<_> = kept.into_iter().flatten().collect();
    assert_eq!((kept.len(), store.tokens().await.unwrap().len()), (1, 1));
    let (n, token) = kept[0].clone();
    // The same again is the same; another one is first only once this one is gone.
    let again = store.keep_first_token(&new(n)).await.unwrap();
    assert_eq!(again, Some(token.clone()));
    assert_eq!(store.keep_first_token(&new(99)).await.unwrap(), None);
    store.revoke_token(token.id).await.unwrap();
    assert!(store.keep_first_token(&new(99)).await.unwrap().is_some());
}
