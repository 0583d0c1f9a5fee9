//! Orders by instant-acme: names, profiles, reuse, ownership.

use std::time::Duration;

use instant_acme::{NewOrder, OrderStatus};
use rcgen::KeyPair;

use crate::world::{RETRIES, World, csr, identifiers, kind, problem};

#[tokio::test]
async fn several_names_make_one_certificate() {
    let world = World::start().await;
    let names = ["b.test", "a.test", "www.a.test"];
    let issued = world.issue(&world.account().await, &names).await.unwrap();
    for name in names {
        world.verify(&issued.chain, name).unwrap();
    }
    assert!(world.verify(&issued.chain, "c.test").is_err());
    let orders = world.json("/dev/orders").await;
    assert_eq!(orders.as_array().unwrap().len(), 1);
    assert_eq!(orders[0]["names"], serde_json::json!(["a.test", "b.test", "www.a.test"]));
    assert_eq!((&orders[0]["status"], &orders[0]["finalized"]), (&"valid".into(), &1.into()));
}

#[tokio::test]
async fn profiles_have_lifetimes_of_their_own() {
    let world = World::start().await;
    let account = world.account().await;
    let mut profiles: Vec<_> = account.profiles().map(|profile| profile.name).collect();
    profiles.sort_unstable();
    assert_eq!(profiles, ["default", "moments", "seconds", "shortlived", "tlsserver"]);
    let hours = 3600;
    let cases = [
        ("default", 90 * 24 * hours),
        ("tlsserver", 45 * 24 * hours),
        ("shortlived", 160 * hours),
        ("seconds", 60),
        ("moments", 8),
    ];
    for (profile, expected) in cases {
        let name = format!("{profile}.test");
        let names = [name.as_str()];
        let identifiers = identifiers(&names);
        let new = NewOrder::new(&identifiers).profile(profile);
        let issued = world.issue_order(&account, &new, &names).await.unwrap();
        let leaf = issued.leaf();
        let (_, parsed) = x509_parser::parse_x509_certificate(&leaf).unwrap();
        let validity = parsed.validity();
        let lifetime = validity.not_after.timestamp() - validity.not_before.timestamp();
        assert_eq!(lifetime, expected, "{profile}");
    }
    let unknown = identifiers(&["x.test"]);
    let refused = account.new_order(&NewOrder::new(&unknown).profile("eternal")).await;
    assert_eq!(kind(&problem(refused)), "invalidProfile");
}

#[tokio::test]
async fn the_same_order_again_is_the_one_that_is_there() {
    let world = World::start().await;
    let account = world.account().await;
    let names = identifiers(&["a.test", "b.test"]);
    let mut first = account.new_order(&NewOrder::new(&names)).await.unwrap();
    let swapped = identifiers(&["b.test", "A.test"]);
    let again = account.new_order(&NewOrder::new(&swapped)).await.unwrap();
    assert_eq!(first.url(), again.url());
    world.prove(&mut first).await.unwrap();
    let ready = account.new_order(&NewOrder::new(&names)).await.unwrap();
    assert_eq!(first.url(), ready.url());
    let other_profile =
        account.new_order(&NewOrder::new(&names).profile("shortlived")).await.unwrap();
    assert_ne!(first.url(), other_profile.url());
    let key = KeyPair::generate().unwrap();
    first.finalize_csr(&csr(&["a.test", "b.test"], &key)).await.unwrap();
    let after = account.new_order(&NewOrder::new(&names)).await.unwrap();
    assert_ne!(first.url(), after.url());
    let other_account = world.account().await;
    let theirs = other_account.new_order(&NewOrder::new(&names)).await.unwrap();
    assert_ne!(after.url(), theirs.url());
}

#[tokio::test]
async fn order_reuse_can_be_switched_off() {
    let world = World::start_with(|config| config.reuse_orders = false).await;
    let account = world.account().await;
    let names = identifiers(&["a.test"]);
    let first = account.new_order(&NewOrder::new(&names)).await.unwrap();
    let again = account.new_order(&NewOrder::new(&names)).await.unwrap();
    assert_ne!(first.url(), again.url());
}

#[tokio::test]
async fn valid_authorizations_serve_again_only_if_asked_for() {
    for (reuse, expected) in [(false, OrderStatus::Pending), (true, OrderStatus::Ready)] {
        let world = World::start_with(|config| config.reuse_authorizations = reuse).await;
        let account = world.account().await;
        world.issue(&account, &["a.test"]).await.unwrap();
        let names = identifiers(&["a.test"]);
        let mut again = account.new_order(&NewOrder::new(&names)).await.unwrap();
        assert_eq!(again.state().status, expected);
    }
}

#[tokio::test]
async fn every_bad_name_is_told_in_a_subproblem() {
    let world = World::start().await;
    let account = world.account().await;
    let one = identifiers(&["localhost"]);
    let refused = problem(account.new_order(&NewOrder::new(&one)).await);
    assert_eq!((kind(&refused), refused.subproblems.len()), ("rejectedIdentifier", 0));
    let names = identifiers(&["good.test", "bad_name.test", "127.0.0.1"]);
    let refused = problem(account.new_order(&NewOrder::new(&names)).await);
    let told: Vec<String> = refused
        .subproblems
        .iter()
        .map(|one| one.identifier.as_ref().unwrap().authorized(false).to_string())
        .collect();
    assert_eq!(told, ["bad_name.test", "127.0.0.1"]);
    assert_eq!(kind(&refused), "rejectedIdentifier");
}

#[tokio::test]
async fn an_expired_order_is_invalid() {
    let world = World::start_with(|config| config.order_lifetime = Duration::ZERO).await;
    let account = world.account().await;
    let names = identifiers(&["late.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    assert_eq!(order.refresh().await.unwrap().status, OrderStatus::Invalid);
}

#[tokio::test]
async fn a_deactivated_authorization_ends_its_order() {
    let world = World::start().await;
    let account = world.account().await;
    let names = identifiers(&["a.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    let mut authorizations = order.authorizations();
    let mut authorization = authorizations.next().await.unwrap().unwrap();
    authorization.deactivate().await.unwrap();
    assert_eq!(order.refresh().await.unwrap().status, OrderStatus::Invalid);
}

#[tokio::test]
async fn an_order_of_another_account_is_forbidden() {
    let world = World::start().await;
    let (mine, theirs) = (world.account().await, world.account().await);
    let issued = world.issue(&theirs, &["theirs.test"]).await.unwrap();
    let refused = problem(mine.order(issued.order_url).await);
    assert_eq!((kind(&refused), refused.status), ("unauthorized", Some(403)));
    let unknown = problem(mine.order(world.net.url("/acme/order/0")).await);
    assert_eq!((kind(&unknown), unknown.status), ("malformed", Some(404)));
}

#[tokio::test]
async fn finalizing_twice_is_refused_and_counted() {
    let world = World::start().await;
    let account = world.account().await;
    let names = identifiers(&["a.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    let key = KeyPair::generate().unwrap();
    let early = problem(order.finalize_csr(&csr(&["a.test"], &key)).await);
    assert_eq!((kind(&early), early.status), ("orderNotReady", Some(403)));
    world.prove(&mut order).await.unwrap();
    order.finalize_csr(&csr(&["a.test"], &key)).await.unwrap();
    assert_eq!(order.state().status, OrderStatus::Valid);
    let again = problem(order.finalize_csr(&csr(&["a.test"], &key)).await);
    assert_eq!(kind(&again), "orderNotReady");
    order.poll_certificate(&RETRIES).await.unwrap();
    let orders = world.json("/dev/orders").await;
    assert_eq!((&orders[0]["finalized"], &orders[0]["finalize_refused"]), (&2.into(), &1.into()));
}
