//! Accounts by instant-acme: creation, binding, key change, contacts, deactivation.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_devnet::ExternalAccount;
use instant_acme::{Account, Error, ExternalAccountKey, Key, NewAccount};

use crate::world::{World, identifiers, kind, problem};

const NEW: NewAccount<'static> =
    NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };

#[tokio::test]
async fn one_key_is_one_account() {
    let world = World::start().await;
    let (_, der) = Key::generate_pkcs8().unwrap();
    let load = async |existing| -> Result<Account, Error> {
        let key = (Key::from_pkcs8_der(der.clone_key()).unwrap(), der.clone_key().into());
        let (builder, directory) = (world.builder(), world.net.directory_url());
        let made = match existing {
            true => builder.from_key(key, directory).await,
            false => builder.create_from_key(key, directory).await,
        };
        made.map(|(account, _)| account)
    };
    assert_eq!(kind(&problem(load(true).await)), "accountDoesNotExist");
    let first = load(false).await.unwrap();
    assert_eq!(load(false).await.unwrap().id(), first.id());
    assert_eq!(load(true).await.unwrap().id(), first.id());
    assert_eq!(world.json("/dev/accounts").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn terms_must_be_agreed_to_where_there_are_any() {
    let silent = NewAccount { terms_of_service_agreed: false, ..NEW };
    let world = World::start().await;
    let refused = world.builder().create(&silent, world.net.directory_url(), None).await;
    assert_eq!(kind(&problem(refused)), "userActionRequired");
    let world = World::start_with(|config| config.terms = false).await;
    let made = world.builder().create(&silent, world.net.directory_url(), None).await;
    assert!(made.is_ok());
}

#[tokio::test]
async fn contacts_are_checked_when_given_and_when_changed() {
    let world = World::start().await;
    let phone = NewAccount { contact: &["tel:+123"], ..NEW };
    let refused = world.builder().create(&phone, world.net.directory_url(), None).await;
    assert_eq!(kind(&problem(refused)), "unsupportedContact");
    let account = world.account().await;
    assert_eq!(kind(&problem(account.update_contacts(&["mailto:nobody"]).await)), "invalidContact");
    account.update_contacts(&["mailto:new@shop.test"]).await.unwrap();
    let contact = &world.json("/dev/accounts").await[0]["contact"];
    assert_eq!(contact, &serde_json::json!(["mailto:new@shop.test"]));
}

#[tokio::test]
async fn an_external_account_can_be_required() {
    let key = [7; 32];
    let known =
        ExternalAccount { key_id: "key-1".to_owned(), hmac_key: URL_SAFE_NO_PAD.encode(key) };
    let world = World::start_with(|config| {
        config.external_accounts = vec![known];
        config.external_account_required = true;
    })
    .await;
    let create = async |binding: Option<ExternalAccountKey>| {
        world.builder().create(&NEW, world.net.directory_url(), binding.as_ref()).await
    };
    assert_eq!(kind(&problem(create(None).await)), "externalAccountRequired");
    let other_id = ExternalAccountKey::new("key-2".to_owned(), &key);
    assert_eq!(kind(&problem(create(Some(other_id)).await)), "unauthorized");
    let other_key = ExternalAccountKey::new("key-1".to_owned(), &[8; 32]);
    assert_eq!(kind(&problem(create(Some(other_key)).await)), "unauthorized");
    let (account, _) =
        create(Some(ExternalAccountKey::new("key-1".to_owned(), &key))).await.unwrap();
    world.issue(&account, &["bound.test"]).await.unwrap();
    let directory = world.json("/directory").await;
    assert_eq!(directory["meta"]["externalAccountRequired"], true);
}

#[tokio::test]
async fn after_a_key_change_only_the_new_key_works() {
    let world = World::start().await;
    let (mut account, old) = world.account_with_credentials().await;
    let old = world.builder().from_credentials(old).await.unwrap();
    let _new = account.update_key().await.unwrap();
    world.issue(&account, &["rekeyed.test"]).await.unwrap();
    assert_eq!(account.id(), old.id());
    let refused =
        problem(old.new_order(&instant_acme::NewOrder::new(&identifiers(&["a.test"]))).await);
    assert_eq!(kind(&refused), "malformed");
}

#[tokio::test]
async fn a_deactivated_account_can_do_nothing() {
    let world = World::start().await;
    let (account, credentials) = world.account_with_credentials().await;
    account.deactivate().await.unwrap();
    let account = world.builder().from_credentials(credentials).await.unwrap();
    let refused = problem(account.update_contacts(&[]).await);
    assert_eq!((kind(&refused), refused.status), ("unauthorized", Some(401)));
}
