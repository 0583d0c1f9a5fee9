//! A CA that lies: each lie costs one order, and what is served stays what it was.

use std::time::Duration;

use holdfast_model::{Domain, Policy, State, Wanted};
use holdfast_testkit::{Endpoint, Lie, eventually, run_sql};
use serde_json::Value;

use crate::kit::{Backend, Setup, World, actor, patient, quick};

/// A ladder that fits a test, and a patience that does.
fn brief() -> Policy {
    Policy { certificate_gone: Duration::from_millis(900), ..quick() }
}

async fn start(backend: Backend, policy: Policy) -> World {
    let setup = Setup { backend, policy, lying: true, issuer_root: true, ..Setup::default() };
    World::start(setup).await
}

async fn orders(world: &World) -> Vec<Value> {
    world.ca_says("orders").await
}

fn code(domain: &Domain) -> &str {
    domain.last_error.as_ref().map(|note| note.code.as_ref()).unwrap_or_default()
}

async fn a_wrong_location_costs_one_order(backend: Backend) {
    let world = start(backend, quick()).await;
    let lie = Lie::about(Endpoint::NewOrder).times(2);
    world.lying().tell(lie.header("location", "file:///etc/passwd"));
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    assert_eq!(orders(&world).await.len(), 1, "the CA gives its pending order again");
    assert_eq!(world.finalized().await["shop.test"], 1);
}

#[tokio::test]
async fn a_wrong_location_costs_one_order_on_sqlite() {
    a_wrong_location_costs_one_order(Backend::Sqlite).await;
}

#[tokio::test]
async fn a_wrong_location_costs_one_order_on_postgres() {
    a_wrong_location_costs_one_order(Backend::Postgres).await;
}

/// Until its certificate had expired a renewal would have stayed so, and `retry` would have changed nothing.
#[tokio::test]
async fn an_order_that_an_earlier_release_stored_and_that_cannot_be_asked_is_made_anew() {
    let world = start(Backend::Postgres, patient()).await;
    world.lying().tell(Lie::about(Endpoint::Authorization).problem(400, "connection", "no"));
    let id = world.add("shop.test").await;
    let parked = world.reaches(id, State::AcmeChallengeFailed).await;
    assert!(parked.order_open);
    world.lying().be_honest();
    run_sql(&world.url, "UPDATE acme_order SET url = 'http://127.0.0.1:1/order'").unwrap();
    world.store.want(id, Wanted::Retry, &actor()).await.unwrap();
    let failed = world.reaches(id, State::AcmeOrderFailed).await;
    assert_eq!((code(&failed), failed.order_open), ("acme-bad-url", false));
    world.store.want(id, Wanted::Retry, &actor()).await.unwrap();
    world.reaches(id, State::Active).await;
    assert_eq!(world.finalized().await["shop.test"], 1);
}

#[tokio::test]
async fn a_certificate_that_is_gone_for_a_moment_costs_no_second_one() {
    let world = start(Backend::Sqlite, quick()).await;
    world.lying().tell(Lie::about(Endpoint::Certificate).times(3).problem(404, "malformed", "no"));
    world.lying().tell(Lie::about(Endpoint::Order).nth(4).problem(404, "malformed", "no order"));
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    assert_eq!(world.lying().asked(Endpoint::Certificate), 4);
    assert_eq!((orders(&world).await.len(), world.finalized().await["shop.test"]), (1, 1));
}

async fn a_certificate_that_stays_gone_is_ordered_anew(backend: Backend) {
    let world = start(backend, brief()).await;
    // The first order's certificate alone.
    world.lying().tell(Lie::about(Endpoint::Certificate).problem(404, "malformed", "no"));
    let id = world.add("shop.test").await;
    world.reaches(id, State::CertificateDownloadFailed).await;
    let gone = world.reaches(id, State::AcmeOrderFailed).await;
    assert_eq!((code(&gone), gone.order_open), ("acme-order-gone", false));
    assert!(world.lying().asked(Endpoint::Certificate) >= 3);
    world.lying().be_honest();
    world.reaches(id, State::Active).await;
}

#[tokio::test]
async fn a_certificate_that_stays_gone_is_ordered_anew_on_sqlite() {
    a_certificate_that_stays_gone_is_ordered_anew(Backend::Sqlite).await;
}

#[tokio::test]
async fn a_certificate_that_stays_gone_is_ordered_anew_on_postgres() {
    a_certificate_that_stays_gone_is_ordered_anew(Backend::Postgres).await;
}

/// What can be a CA's outage costs nothing at first; that of one order alone ends after a while.
#[tokio::test]
async fn a_certificate_that_stays_a_page_is_ordered_anew() {
    let policy = Policy { certificate_useless: Duration::from_millis(900), ..quick() };
    let world = start(Backend::Sqlite, policy).await;
    world.lying().tell(Lie::about(Endpoint::Certificate).text(|_| "<html>".to_owned()));
    let id = world.add("shop.test").await;
    let gone = world.reaches(id, State::AcmeOrderFailed).await;
    assert_eq!((code(&gone), gone.order_open), ("ca-not-acme", false));
    let history = world.history(id).await;
    assert!(!history.contains(&State::CertificateDownloadFailed), "{history:?}");
    world.lying().be_honest();
    world.reaches(id, State::Active).await;
}

#[tokio::test]
async fn an_authorization_that_makes_no_sense_for_a_moment_costs_nothing() {
    let world = start(Backend::Sqlite, quick()).await;
    world.lying().tell(Lie::about(Endpoint::Authorization).nth(1).text(|_| "{}".to_owned()));
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    let history = world.history(id).await;
    assert!(!history.iter().any(|state| state.is_failure()), "{history:?}");
    assert_eq!(orders(&world).await.len(), 1);
}

/// The CA says at once that the name is proven, and does not hold to it.
#[tokio::test]
async fn an_order_that_was_called_ready_by_mistake_is_made_again() {
    let world = start(Backend::Sqlite, quick()).await;
    let ready = |order: &str| order.replace("\"pending\"", "\"valid\"");
    world.lying().tell(Lie::about(Endpoint::Authorization).nth(1).text(ready));
    let id = world.add("shop.test").await;
    world.reaches(id, State::CertificateDownloading).await;
    let gone = eventually(Duration::from_secs(150), "to be given up", async || {
        let domain = world.domain(id).await;
        if domain.state.is_failure() || domain.state == State::Active {
            return Ok(());
        }
        Err(domain.state)
    });
    gone.await;
    world.reaches(id, State::Active).await;
    let history = world.history(id).await;
    assert!(history.contains(&State::AcmeOrderFailed), "{history:?}");
    assert_eq!(world.finalized().await["shop.test"], 1);
}

/// It is downloaded until its chain verifies, with one order, and what is served meanwhile is the certificate of before.
#[tokio::test]
async fn a_chain_that_leads_nowhere_is_not_deployed_over_a_good_one() {
    for (fault, cause) in [
        ("truncated-chain", "incomplete-chain"),
        ("foreign-certificate", "untrusted-chain"),
        ("self-signed", "untrusted-chain"),
    ] {
        let world = start(Backend::Sqlite, quick()).await;
        let id = world.add("shop.test").await;
        let before = world.reaches(id, State::Active).await.certificate.unwrap();
        world.devnet.faults().set(fault, "shop.test", None).unwrap();
        world.store.want(id, Wanted::Renew, &actor()).await.unwrap();
        let tried = |domain: &Domain| {
            domain.state == State::CertificateDownloadFailed && domain.failures >= 3
        };
        let failed = world.reaches_when(id, fault, tried).await;
        assert_eq!(code(&failed), cause, "{fault}");
        assert_eq!(failed.certificate.unwrap().sha256, before.sha256);
        assert_eq!(orders(&world).await.len(), 2);
        if fault == "truncated-chain" {
            world.devnet.faults().clear_all();
            let renewed = world.reaches(id, State::Active).await;
            assert_ne!(renewed.certificate.unwrap().sha256, before.sha256);
            assert_eq!((orders(&world).await.len(), world.finalized().await["shop.test"]), (2, 2));
        }
    }
}

#[tokio::test]
async fn another_chain_that_the_ca_names_is_taken_where_the_first_leads_nowhere() {
    let world = start(Backend::Sqlite, patient()).await;
    let leaf =
        |pem: &str| pem.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap().to_owned();
    // The same URL: only the first answer is without its intermediate.
    let lie = Lie::about(Endpoint::Certificate).nth(1).text(leaf).edit(|answer| {
        answer
            .headers_mut()
            .append("link", "<https://elsewhere.test/chain>;rel=\"alternate\"".parse().unwrap());
    });
    world.lying().tell(lie);
    // Its own URL is not known before it is issued: the order names it.
    let base = world.lying().base();
    world.lying().tell(Lie::about(Endpoint::Certificate).nth(1).edit(move |answer| {
        let serial = serial(answer.body());
        let link = format!("<{base}/acme/certificate/{serial}>;rel=\"alternate\"");
        answer.headers_mut().append("link", link.parse().unwrap());
    }));
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    assert_eq!(world.lying().asked(Endpoint::Certificate), 2, "not what is elsewhere");
}

fn serial(pem: &[u8]) -> String {
    let pem = std::str::from_utf8(pem).unwrap();
    holdfast_acme::certificate::facts(pem, "").unwrap().serial
}

#[tokio::test]
async fn the_issuer_of_the_first_chain_is_pinned_where_its_root_is_not_known() {
    let setup = Setup { lying: true, policy: quick(), ..Setup::default() };
    let world = World::start(setup).await;
    let (directory, limits) = (world.devnet.directory_url(), Setup::default().limits);
    let account = async || world.store.account(&directory, limits).await.unwrap().unwrap();
    // The first is no chain: nothing is pinned by it.
    world.devnet.faults().set("truncated-chain", "*", Some(1)).unwrap();
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    let pin = account().await.pin.unwrap();
    assert!(pin.contains("Holdfast DEVELOPMENT CA") && pin.contains("root"), "{pin}");
    world.devnet.faults().set("foreign-certificate", "other.test", Some(1)).unwrap();
    let id = world.add("other.test").await;
    let refused = world.reaches(id, State::CertificateDownloadFailed).await;
    assert_eq!(code(&refused), "untrusted-chain");
    // A person who knows that the CA has another root lets the next chain decide.
    world.store.unpin_issuer(account().await.id).await.unwrap();
    world.reaches(id, State::Active).await;
    assert_ne!(account().await.pin.unwrap(), pin);
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_ordered_anew_and_one_to_come_is_waited_for() {
    let world = start(Backend::Sqlite, patient()).await;
    let faults = world.devnet.faults();
    faults.set("expired-certificate", "late.test", Some(1)).unwrap();
    faults.set("early-certificate", "early.test", Some(1)).unwrap();
    let late = world.add("late.test").await;
    let failed = world.reaches(late, State::AcmeOrderFailed).await;
    assert_eq!((code(&failed), failed.order_open), ("wrong-certificate", false));
    world.store.want(late, Wanted::Retry, &actor()).await.unwrap();
    world.reaches(late, State::Active).await;
    let early = world.add("early.test").await;
    let failed = world.reaches(early, State::CertificateDownloadFailed).await;
    assert_eq!((code(&failed), failed.order_open), ("certificate-early", true));
    let order = world.store.open_order(early).await.unwrap().unwrap();
    assert_eq!(order.trouble.unwrap().kind, "early");
}

/// What PostgreSQL could not keep would be tried for ever.
#[tokio::test]
async fn no_text_of_a_ca_is_kept_as_it_came() {
    let world = start(Backend::Postgres, quick()).await;
    world.lying().tell(Lie::about(Endpoint::Directory).edit_json(|directory| {
        directory["meta"]["termsOfService"] = "https://ca.test/terms\0".into();
    }));
    let spoil = |name: &'static str| {
        move |authorization: &mut Value| {
            for challenge in authorization["challenges"].as_array_mut().unwrap() {
                let text = format!("{}\0", challenge[name].as_str().unwrap());
                challenge[name] = text.into();
            }
        }
    };
    for name in ["url", "token"] {
        let lie = Lie::about(Endpoint::Authorization).times(1).edit_json(spoil(name));
        world.lying().tell(lie);
        let id = world.add(&format!("{name}.test")).await;
        let reached = world.reaches(id, State::Active).await;
        assert_eq!(reached.lapses, 0);
    }
    let problem = Lie::about(Endpoint::NewOrder).times(1).problem(403, "caa\0", "no\0");
    world.lying().tell(problem);
    let id = world.add("refused.test").await;
    world
        .reaches_when(id, "an end", |domain| {
            domain.last_error.is_some() || domain.state == State::Active
        })
        .await;
}
