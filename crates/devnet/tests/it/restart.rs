//! A restart goes on where it was, also one after a kill.

use std::path::Path;

use holdfast_devnet::{Devnet, DevnetConfig, Error, ROOT_FILE};
use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::Point;
use instant_acme::{AccountCredentials, NewOrder, OrderStatus, RevocationRequest};
use rcgen::KeyPair;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::world::{RETRIES, World, csr, identifiers, kind, problem};

async fn start(data: &Path, like: Option<&DevnetConfig>) -> World {
    let like = like.cloned();
    World::start_with(|config| {
        if let Some(like) = like {
            (config.ca, config.dns) = (like.ca, like.dns);
        }
        config.data = Some(data.to_owned());
    })
    .await
}

fn addresses(net: &Devnet) -> DevnetConfig {
    DevnetConfig { ca: net.ca_address(), dns: net.dns_address(), ..DevnetConfig::default() }
}

#[tokio::test]
async fn a_restart_goes_on() {
    let data = tempfile::tempdir().unwrap();
    let world = start(data.path(), None).await;
    let (account, credentials) = world.account_with_credentials().await;
    let issued = world.issue(&account, &["a.test"]).await.unwrap();
    let names = identifiers(&["b.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    world.prove(&mut order).await.unwrap();
    world.net.zone().set("kept.test", "A", "127.0.0.7").unwrap();
    world.net.zone().set("cleared.test", "A", "127.0.0.7").unwrap();
    world.net.zone().clear("cleared.test").unwrap();
    let (orders, root) = (world.json("/dev/orders").await, world.net.root_pem().to_owned());
    assert_eq!(std::fs::read_to_string(data.path().join(ROOT_FILE)).unwrap(), root);
    let like = addresses(&world.net);
    world.net.shutdown().await;

    let world = start(data.path(), Some(&like)).await;
    assert_eq!(world.net.root_pem(), root);
    assert_eq!(world.json("/dev/orders").await, orders);
    assert_eq!(world.net.zone().list().len(), 1);
    world.verify(&issued.chain, "a.test").unwrap();
    let account = world.builder().from_credentials(credentials).await.unwrap();
    let mut order = account.order(order.url().to_owned()).await.unwrap();
    assert_eq!(order.state().status, OrderStatus::Ready);
    order.finalize_csr(&csr(&["b.test"], &KeyPair::generate().unwrap())).await.unwrap();
    let chain = order.poll_certificate(&RETRIES).await.unwrap();
    crate::world::verify(&root, &chain, "b.test").unwrap();
    let mut first = account.order(issued.order_url.clone()).await.unwrap();
    assert_eq!(first.certificate().await.unwrap().unwrap(), issued.chain);
}

#[tokio::test]
async fn work_under_way_is_taken_up_again() {
    let data = tempfile::tempdir().unwrap();
    let world = start(data.path(), None).await;
    let (account, credentials) = world.account_with_credentials().await;
    world.net.faults().set("processing", "600", None).unwrap();
    let names = identifiers(&["slow.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    world.prove(&mut order).await.unwrap();
    order.finalize_csr(&csr(&["slow.test"], &KeyPair::generate().unwrap())).await.unwrap();
    assert_eq!(order.state().status, OrderStatus::Processing);
    world.net.faults().set("slow-validation", "600", None).unwrap();
    let names = identifiers(&["waits.test"]);
    let mut waiting = account.new_order(&NewOrder::new(&names)).await.unwrap();
    {
        let mut authorizations = waiting.authorizations();
        let mut authorization = authorizations.next().await.unwrap().unwrap();
        let challenge = authorization.challenge(instant_acme::ChallengeType::Http01);
        challenge.unwrap().set_ready().await.unwrap();
    }
    let like = addresses(&world.net);
    world.net.shutdown().await;

    let world = start(data.path(), Some(&like)).await;
    let account = world.builder().from_credentials(credentials).await.unwrap();
    let mut order = account.order(order.url().to_owned()).await.unwrap();
    order.poll_certificate(&RETRIES).await.unwrap();
    assert_eq!(world.json("/dev/orders").await[0]["finalized"], 1);
    let mut waiting = account.order(waiting.url().to_owned()).await.unwrap();
    // Nobody answers there any more: that it fails shows that it was looked at.
    assert_eq!(kind(&problem(waiting.poll_ready(&RETRIES).await)), "unauthorized");
}

/// What is on disk when an answer arrives is what a kill at that moment leaves.
#[tokio::test]
async fn a_kill_forgets_nothing_that_was_told() {
    let (data, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let world = start(data.path(), None).await;
    let account = world.account().await;
    world.issue(&account, &["a.test"]).await.unwrap();
    let names = identifiers(&["b.test"]);
    account.new_order(&NewOrder::new(&names)).await.unwrap();
    copy_tree(data.path(), copy.path());
    let told = world.json("/dev/orders").await;
    let after = start(copy.path(), None).await;
    let found = after.json("/dev/orders").await;
    for (told, found) in told.as_array().unwrap().iter().zip(found.as_array().unwrap()) {
        for member in ["id", "names", "status", "finalized", "certificate", "account"] {
            assert_eq!(told[member], found[member]);
        }
    }
    assert_eq!(found.as_array().unwrap().len(), 2);
    assert_eq!(after.json("/dev/accounts").await.as_array().unwrap().len(), 1);
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_tree(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

#[tokio::test]
async fn a_start_that_cannot_be_says_why() {
    let world = World::start().await;
    let config = |change: fn(&mut DevnetConfig)| {
        let mut config = DevnetConfig::default();
        change(&mut config);
        config
    };
    let taken = DevnetConfig { ca: world.net.ca_address(), ..DevnetConfig::default() };
    assert!(matches!(Devnet::start(taken).await, Err(Error::Listen(_))));
    let taken = DevnetConfig { dns: world.net.dns_address(), ..DevnetConfig::default() };
    let refused = Devnet::start(taken).await.err().unwrap().to_string();
    assert!(refused.contains(&world.net.dns_address().to_string()), "{refused}");
    let none = config(|config| config.profiles.clear());
    assert!(matches!(Devnet::start(none).await, Err(Error::NoProfile)));
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir(data.path().join("devnet")).unwrap();
    std::fs::copy("/proc/version", data.path().join("devnet/authority.json")).unwrap();
    let broken = DevnetConfig { data: Some(data.path().to_owned()), ..DevnetConfig::default() };
    assert!(matches!(Devnet::start(broken).await, Err(Error::Authority { .. })));
}

#[tokio::test]
async fn orders_that_have_ended_are_forgotten_beyond_a_number_and_certificates_stay_known() {
    let data = tempfile::tempdir().unwrap();
    let world = World::start_with(|config| {
        config.data = Some(data.path().to_owned());
        config.orders_kept = Some(3);
    })
    .await;
    let account = world.account().await;
    let first = world.issue(&account, &["n0.test"]).await.unwrap();
    let fingerprint = world.json("/dev/certificates").await[0]["sha256"].clone();
    for n in 1..8 {
        world.issue(&account, &[format!("n{n}.test").as_str()]).await.unwrap();
    }
    assert_eq!(world.json("/dev/orders").await.as_array().unwrap().len(), 4);
    assert!(account.order(first.order_url.clone()).await.is_err());
    // What a client does with a certificate that it has had for long still works.
    let certificates = world.json("/dev/certificates").await;
    assert_eq!(certificates.as_array().unwrap().len(), 8);
    assert_eq!(certificates[0]["sha256"], fingerprint);
    let id = certificates[0]["id"].as_str().unwrap();
    world.json(&format!("/acme/renewal-info/{id}")).await;
    let leaf = first.leaf();
    let request = RevocationRequest { certificate: &leaf, reason: None };
    account.revoke(&request).await.unwrap();
    let told = (world.json("/dev/orders").await, world.json("/dev/certificates").await);
    let like = addresses(&world.net);
    world.net.shutdown().await;

    let world = start(data.path(), Some(&like)).await;
    assert_eq!((world.json("/dev/orders").await, world.json("/dev/certificates").await), told);
    let journal = std::fs::read_to_string(data.path().join("devnet/journal.jsonl")).unwrap();
    assert_eq!(journal.matches("\"kind\":\"authorization\"").count(), 4);
}

/// Whoever orders does not wait until a CA that has kept too much has forgotten all of it.
#[tokio::test]
async fn what_is_too_much_is_forgotten_in_parts_and_the_oldest_first() {
    let data = tempfile::tempdir().unwrap();
    let world = start(data.path(), None).await;
    let (account, credentials) = world.account_with_credentials().await;
    world.issue(&account, &["a.test"]).await.unwrap();
    let like = addresses(&world.net);
    world.net.shutdown().await;
    copy_order(data.path(), 300);

    let world = World::start_with(|config| {
        (config.ca, config.dns) = (like.ca, like.dns);
        config.data = Some(data.path().to_owned());
        config.orders_kept = Some(10);
    })
    .await;
    let account = world.builder().from_credentials(credentials).await.unwrap();
    for (name, left, oldest) in [("b.test", 301 - 256 + 1, "copy-255"), ("c.test", 11, "copy-291")]
    {
        account.new_order(&NewOrder::new(&identifiers(&[name]))).await.unwrap();
        let orders = world.json("/dev/orders").await;
        assert_eq!(orders.as_array().unwrap().len(), left);
        assert_eq!(orders[0]["id"], oldest);
    }
}

/// Repeats the one order of a journal.
fn copy_order(data: &Path, times: usize) {
    let path = data.join("devnet/journal.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    let order = text.lines().rfind(|line| line.contains("\"kind\":\"order\"")).unwrap();
    let mut order: Value = serde_json::from_str(order).unwrap();
    for number in 0..times {
        let id = Value::from(format!("copy-{number}"));
        (order["row"]["id"], order["id"]) = (id.clone(), id);
        text.push_str(&format!("{order}\n"));
    }
    files::write(Point::FILE_OTHER, &path, text.as_bytes(), Access::Private).unwrap();
}

/// A certificate that ended eight days ago, by the hand of the test; one that ended yesterday is still asked about.
#[tokio::test]
async fn certificates_are_forgotten_some_days_after_their_end() {
    let data = tempfile::tempdir().unwrap();
    let world = start(data.path(), None).await;
    let (account, credentials) = world.account_with_credentials().await;
    for name in ["long.test", "yesterday.test", "lives.test"] {
        world.issue(&account, &[name]).await.unwrap();
    }
    let like = addresses(&world.net);
    world.net.shutdown().await;
    edit_certificates(data.path(), |row| {
        let ended = [("long.test", 8), ("yesterday.test", 1)];
        if let Some((_, days)) = ended.iter().find(|(name, _)| row["names"][0] == *name) {
            let begun = OffsetDateTime::parse(row["not_before"].as_str().unwrap(), &Rfc3339);
            let end = begun.unwrap() - time::Duration::days(*days);
            row["not_after"] = end.format(&Rfc3339).unwrap().into();
        }
    });

    let world = start(data.path(), Some(&like)).await;
    let account = world.builder().from_credentials(credentials).await.unwrap();
    account.new_order(&NewOrder::new(&identifiers(&["next.test"]))).await.unwrap();
    let known = world.json("/dev/certificates").await;
    let known: Vec<_> = known.as_array().unwrap().iter().map(|one| &one["names"][0]).collect();
    assert_eq!(known, ["yesterday.test", "lives.test"]);
    let journal = std::fs::read_to_string(data.path().join("devnet/journal.jsonl")).unwrap();
    let last = journal.lines().rfind(|line| line.contains("\"kind\":\"certificate\"")).unwrap();
    assert!(last.ends_with("\"row\":null}"), "{last}");
}

/// Changes the rows of certificates.
fn edit_certificates(data: &Path, edit: impl Fn(&mut Value)) {
    let path = data.join("devnet/journal.jsonl");
    let mut text = String::new();
    for line in std::fs::read_to_string(&path).unwrap().lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["kind"] == "certificate" {
            edit(&mut line["row"]);
        }
        text.push_str(&format!("{line}\n"));
    }
    files::write(Point::FILE_OTHER, &path, text.as_bytes(), Access::Private).unwrap();
}

#[tokio::test]
async fn an_order_that_failed_and_is_forgotten_has_replaced_nothing() {
    let data = tempfile::tempdir().unwrap();
    let world = World::start_with(|config| {
        config.data = Some(data.path().to_owned());
        config.orders_kept = Some(1);
    })
    .await;
    let (account, credentials) = world.account_with_credentials().await;
    let names = identifiers(&["a.test"]);
    let replaced = world.issue(&account, &["a.test"]).await.unwrap();
    let replaces = || NewOrder::new(&names).replaces(crate::renewal::id(&replaced));
    for round in 0..2 {
        let mut failed = account.new_order(&replaces()).await.unwrap();
        let mut authorizations = failed.authorizations();
        authorizations.next().await.unwrap().unwrap().deactivate().await.unwrap();
        let url = failed.url().to_owned();
        for n in 0..3 {
            world.issue(&account, &[format!("n{round}{n}.test").as_str()]).await.unwrap();
        }
        assert!(account.order(url).await.is_err(), "it is forgotten");
    }
    // One that became a certificate has replaced it for good, forgotten or not.
    let mut order = account.new_order(&replaces()).await.unwrap();
    world.prove(&mut order).await.unwrap();
    order.finalize_csr(&csr(&["a.test"], &KeyPair::generate().unwrap())).await.unwrap();
    order.poll_certificate(&RETRIES).await.unwrap();
    for n in 0..3 {
        world.issue(&account, &[format!("m{n}.test").as_str()]).await.unwrap();
    }
    assert!(account.order(order.url().to_owned()).await.is_err(), "it is forgotten");
    let like = addresses(&world.net);
    world.net.shutdown().await;
    let world = start(data.path(), Some(&like)).await;
    let account = world.builder().from_credentials(copy(&credentials)).await.unwrap();
    assert_eq!(kind(&problem(account.new_order(&replaces()).await)), "alreadyReplaced");
    world.net.shutdown().await;

    // As a kill between the mark and the order leaves it.
    edit_certificates(data.path(), |row| row["replaced_by"] = "never-made".into());
    let world = start(data.path(), Some(&like)).await;
    let account = world.builder().from_credentials(copy(&credentials)).await.unwrap();
    account.new_order(&replaces()).await.unwrap();
}

fn copy(credentials: &AccountCredentials) -> AccountCredentials {
    serde_json::from_value(serde_json::to_value(credentials).unwrap()).unwrap()
}
