//! A name that has a certificate is never left alone, and takes no more than its share: whatever the certificate, the CA or the edges say.

use std::time::Duration;

use holdfast_devnet::{DevnetConfig, Profile, RenewalWindow};
use holdfast_model::{Domain, Note, Policy, State, Timestamp, Wanted};
use holdfast_store::NewDomain;
use holdfast_testkit::run_sql;

use crate::kit::{Backend, Setup, World, actor, new, patient, quick};

/// Every leaf is backdated by 70 of its 90 days.
const SHIFT_ON_SQLITE: &str = "CREATE TRIGGER shift AFTER INSERT ON certificate BEGIN
    UPDATE certificate SET not_before = not_before - 6048000000000, not_after = not_after - 6048000000000 WHERE id = NEW.id; END";
const SHIFT_ON_POSTGRES: &str = "CREATE FUNCTION shift() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        NEW.not_before := NEW.not_before - interval '70 days'; NEW.not_after := NEW.not_after - interval '70 days'; RETURN NEW; END $$;
    CREATE TRIGGER shift BEFORE INSERT ON certificate FOR EACH ROW EXECUTE FUNCTION shift()";

fn is_put_off(domain: &Domain) -> bool {
    domain.state == State::Active
        && domain.last_error.as_ref().is_some_and(|note| note.code == Note::RENEWAL_PUT_OFF)
}

fn fingerprint(domain: &Domain) -> Option<String> {
    domain.certificate.as_ref().map(|certificate| certificate.sha256.clone())
}

/// A tenth of its life is nine days. In between it is looked at for what the CA says of it, but no more often than every hour.
fn rests(put_off: &Domain) {
    let told = &put_off.last_error.as_ref().unwrap().detail;
    let moment = |before: &str, after: &str| {
        let text = told.split_once(before).and_then(|(_, rest)| rest.split_once(after));
        Timestamp::parse(text.ok_or(told).unwrap().0).unwrap()
    };
    let came_at = moment("its certificate came at ", ",");
    let rest = moment("it is used until ", " before another").since(came_at);
    assert_eq!(rest.as_secs() / 86_400, 9, "{told}");
    let look_at = put_off.next_attempt_at.unwrap();
    assert!(look_at.since(came_at) >= Duration::from_secs(3_600), "{look_at}: {told}");
}

async fn due_when_it_comes(backend: Backend, shift: &str) {
    let world = World::start(Setup { backend, ..Setup::default() }).await;
    run_sql(&world.url, shift).unwrap();
    let id = world.add("shop.test").await;
    let first = world.reaches_when(id, "a renewal that waits", is_put_off).await;
    rests(&first);
    assert_eq!(world.store.late_issues(5).await.unwrap().count, 1);
    // A person need not wait.
    world.store.want(id, Wanted::Renew, &actor()).await.unwrap();
    let renewed =
        |domain: &Domain| is_put_off(domain) && fingerprint(domain) != fingerprint(&first);
    world.reaches_when(id, "another certificate", renewed).await;
    assert_eq!(world.ca_says("orders").await.len(), 2);
}

#[tokio::test]
async fn due_when_it_comes_on_sqlite() {
    due_when_it_comes(Backend::Sqlite, SHIFT_ON_SQLITE).await;
}

#[tokio::test]
async fn due_when_it_comes_on_postgres() {
    due_when_it_comes(Backend::Postgres, SHIFT_ON_POSTGRES).await;
}

/// The product's pace, but for the first look.
fn asked_at_once() -> Policy {
    let mut policy = quick();
    policy.renewal.ask_every = Duration::from_millis(200);
    policy
}

fn window(start: Timestamp, retry_after: Option<u64>) -> RenewalWindow {
    RenewalWindow {
        start: start.into(),
        end: start.plus(Duration::from_secs(60)).into(),
        explanation_url: Some("https://ca.example/why".to_owned()),
        retry_after,
    }
}

/// A CA that says of each certificate that it should have been renewed is believed once.
#[tokio::test]
async fn a_window_in_the_past_counts_once() {
    let world = World::start(Setup { policy: asked_at_once(), ..Setup::default() }).await;
    let past = world.store.ping().await.unwrap().minus(Duration::from_secs(7_200));
    world.devnet.set_renewal_window("*", Some(window(past, None)));
    let id = world.add("shop.test").await;
    world.reaches_when(id, "a renewal that waits", is_put_off).await;
    assert_eq!(world.ca_says("orders").await.len(), 2);
}

#[tokio::test]
async fn the_ca_is_asked_from_the_first_day_on_and_its_reason_is_kept() {
    let world = World::start(Setup { policy: asked_at_once(), ..Setup::default() }).await;
    let to_come = world.store.ping().await.unwrap().plus(Duration::from_secs(3_600 * 24 * 20));
    world.devnet.set_renewal_window("*", Some(window(to_come, Some(7_200))));
    let id = world.add("shop.test").await;
    let explained = |domain: &Domain| {
        domain.state == State::Active
            && domain.last_error.as_ref().is_some_and(|note| {
                note.code == Note::RENEWAL_EXPLAINED
                    && note.detail.contains("https://ca.example/why")
            })
    };
    let domain = world.reaches_when(id, "the CA's reason", explained).await;
    let wait = domain.next_attempt_at.unwrap().since(world.store.ping().await.unwrap());
    assert!(wait > Duration::from_secs(7_000) && wait <= Duration::from_secs(7_920), "{wait:?}");
    assert_eq!(world.ca_says("orders").await.len(), 1);
}

/// In a group that no edge belongs to.
async fn nowhere(world: &World, name: &str) -> Domain {
    let new = NewDomain { edge_group: "nowhere".to_owned(), ..new(name, None) };
    let id = world.store.add(&new).await.unwrap().domain.id;
    world.reaches(id, State::CertificateDeploying).await
}

#[tokio::test]
async fn what_no_edge_takes_is_renewed_before_it_ends() {
    let short = Profile::new("short", Duration::from_secs(10), "10 seconds");
    let devnet = DevnetConfig { profiles: vec![short], ..DevnetConfig::default() };
    let mut policy = quick();
    policy.deployment_look = Duration::from_millis(300);
    let world = World::start(Setup { policy, devnet, ..Setup::default() }).await;
    let first = nowhere(&world, "shop.test").await;
    let renewed = |domain: &Domain| {
        domain.state == State::CertificateDeploying && fingerprint(domain) != fingerprint(&first)
    };
    world.reaches_when(first.id, "another certificate", renewed).await;
}

#[tokio::test]
async fn what_no_edge_takes_is_renewed_by_request() {
    let world = World::start(Setup::default()).await;
    let first = nowhere(&world, "shop.test").await;
    world.store.want(first.id, Wanted::Renew, &actor()).await.unwrap();
    let renewed = |domain: &Domain| {
        domain.state == State::CertificateDeploying && fingerprint(domain) != fingerprint(&first)
    };
    let second = world.reaches_when(first.id, "another certificate", renewed).await;
    assert_eq!((second.wanted, world.ca_says("orders").await.len()), (None, 2));
}

/// It is kept, costs no loop, and the certificate of the order under way answers it.
#[tokio::test]
async fn a_renewal_asked_for_during_an_order_is_answered_by_it() {
    let world = World::start(Setup::default()).await;
    world.devnet.faults().set("slow-validation", "4000", None).unwrap();
    let id = world.add("shop.test").await;
    let before = world.reaches(id, State::AcmeChallengeValidating).await;
    world.store.want(id, Wanted::Renew, &actor()).await.unwrap();
    let active = world.reaches(id, State::Active).await;
    assert_eq!((active.wanted, world.ca_says("orders").await.len()), (None, 1));
    assert!(active.version - before.version < 30, "{} {}", before.version, active.version);
}

/// The old certificate has 90 days left: nothing is final.
#[tokio::test]
async fn a_caa_record_ends_no_renewal() {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    let id = world.add("shop.test").await;
    let first = world.reaches(id, State::Active).await;
    world.devnet.faults().set("caa", "shop.test", None).unwrap();
    world.store.want(id, Wanted::Renew, &actor()).await.unwrap();
    let failed = world.reaches(id, State::AcmeChallengeFailed).await;
    assert_eq!(failed.last_error.as_ref().unwrap().code, "acme-caa");
    assert!(failed.next_attempt_at.is_some());
    world.devnet.faults().clear_all();
    world.store.want(id, Wanted::Retry, &actor()).await.unwrap();
    let renewed = |domain: &Domain| {
        domain.state == State::Active && fingerprint(domain) != fingerprint(&first)
    };
    world.reaches_when(id, "another certificate", renewed).await;
}
