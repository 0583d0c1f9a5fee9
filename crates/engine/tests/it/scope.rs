//! Who waits when the CA refuses for now: what the refusal is about, and nothing else.

use std::{ops::Range, time::Duration};

use holdfast_model::{Domain, DomainId, State, Timestamp, WaitScope, Wanted};
use holdfast_store::{Event, EventBody, NewDomain, Page};
use holdfast_testkit::{Endpoint, Lie, eventually, run_sql};

use crate::kit::{Backend, Setup, World, actor, name, new, patient};

const LONG: Duration = Duration::from_secs(120);

/// A fault, what it strikes, and how long the CA asks to wait.
const SCOPES: [(&str, &str, u64); 5] = [
    ("failed-authorizations", "failed.test", 720),
    ("exact-set-limit", "exact.test", 24 * 3600),
    ("registered-domain-limit", "limited.test", 12_096),
    ("paused-name", "paused.test", 6 * 3600),
    ("unknown-limit", "unknown.test", 600),
];

fn is_deferred(domain: &Domain) -> bool {
    domain.state == State::AcmeOrdering && domain.queued_at.is_none() && domain.last_error.is_some()
}

async fn start(backend: Backend) -> World {
    World::start(Setup { backend, policy: patient(), ..Setup::default() }).await
}

async fn is_paused(world: &World) -> bool {
    let account = world.store.account(&world.devnet.directory_url(), Setup::default().limits).await;
    account.unwrap().unwrap().paused_until.is_some()
}

/// Keeps a line of whatever makes another than a refused name wait, also where that is over soon.
const RECORD_ON_SQLITE: &str = "CREATE TABLE waited (what TEXT);
    CREATE TRIGGER told AFTER UPDATE ON domain WHEN NEW.name LIKE 'other-%' AND NEW.error_code LIKE 'acme-%'
        BEGIN INSERT INTO waited VALUES (NEW.name || ' ' || NEW.error_code); END;
    CREATE TRIGGER paused AFTER UPDATE ON acme_account WHEN NEW.paused_until IS NOT NULL BEGIN INSERT INTO waited VALUES ('account'); END;
    CREATE TRIGGER failed AFTER INSERT ON ca_failure BEGIN INSERT INTO waited VALUES ('replica'); END";
const RECORD_ON_POSTGRES: &str = "CREATE TABLE waited (what TEXT);
    CREATE FUNCTION record() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO waited VALUES (TG_TABLE_NAME || ' ' || NEW); RETURN NULL; END $$;
    CREATE TRIGGER told AFTER UPDATE ON domain FOR EACH ROW
        WHEN (NEW.name LIKE 'other-%' AND NEW.error_code LIKE 'acme-%') EXECUTE FUNCTION record();
    CREATE TRIGGER paused AFTER UPDATE ON acme_account FOR EACH ROW WHEN (NEW.paused_until IS NOT NULL) EXECUTE FUNCTION record();
    CREATE TRIGGER failed AFTER INSERT ON ca_failure FOR EACH ROW EXECUTE FUNCTION record()";

/// Fails where there is such a line, or where another name left the queue more often than once.
const NOBODY_WAITED: &str = "CREATE TEMP TABLE nobody (who TEXT CHECK (who = ''));
    INSERT INTO nobody SELECT what FROM waited;
    INSERT INTO nobody SELECT d.name || ' left the queue times ' || count(o.id)
        FROM domain d LEFT JOIN acme_order o ON o.domain_id = d.id
        WHERE d.name LIKE 'other-%' GROUP BY d.name HAVING count(o.id) <> 1";

/// When it became Active, without a failure before.
async fn active_at(world: &World, other: &NewDomain) -> Timestamp {
    world.reaches(other.id, State::Active).await;
    let history = world.history(other.id).await;
    assert!(!history.iter().any(|state| state.is_failure()), "{}", other.name);
    let page = Page { limit: 1_000, after: None };
    let events = world.store.history(other.id, &page).await.unwrap().items;
    let is_active = |event: &&Event| {
        matches!(event.body, EventBody::Transition { to: Some(State::Active), .. })
    };
    events.iter().find(is_active).unwrap().at
}

/// Adds many whom the CA does not refuse.
async fn others(world: &World, numbers: Range<usize>) -> Vec<NewDomain> {
    let others: Vec<_> = numbers.map(|n| new(&format!("other-{n}.test"), None)).collect();
    for added in world.store.add_many(&others).await.unwrap() {
        added.unwrap();
    }
    others
}

async fn deferred(world: &World, id: DomainId, wait: u64) -> Domain {
    let domain = world.reaches_when(id, "to be deferred", is_deferred).await;
    assert_eq!((domain.attempt, domain.failures), (0, 0), "{}", domain.name);
    let told = domain.next_attempt_at.unwrap().since(domain.updated_at).as_secs();
    assert!(told + 60 > wait && told <= wait * 6 / 5, "{}: {told} s of {wait}", domain.name);
    assert!(!world.history(id).await.iter().any(|state| state.is_failure()));
    domain
}

/// Two hundred names, of which the CA refuses one for each scope: all others are served as if nothing had happened, and a
/// renewal goes on too. Half of them are in the queue beside the refused ones, half come while those wait.
async fn only_what_is_in_scope_waits(backend: Backend, record: &str) {
    let world = start(backend).await;
    run_sql(&world.url, record).unwrap();
    let served = world.add("served.test").await;
    let before = world.reaches(served, State::Active).await.certificate.unwrap().sha256;
    for (fault, name, _) in SCOPES {
        world.devnet.faults().set(fault, name, None).unwrap();
    }
    let mut refused = Vec::new();
    for (_, name, wait) in SCOPES {
        refused.push((world.add(name).await, wait));
    }
    let mut all = others(&world, 0..95).await;
    let mut waiting = Vec::new();
    for (id, wait) in refused {
        waiting.push(deferred(&world, id, wait).await);
    }
    all.extend(others(&world, 95..195).await);
    world.store.want(served, Wanted::Renew, &actor()).await.unwrap();
    let first_end = waiting.iter().filter_map(|domain| domain.next_attempt_at).min().unwrap();
    for other in &all {
        assert!(active_at(&world, other).await < first_end, "{} waited with others", other.name);
    }
    world
        .reaches_when(served, "to be renewed", |domain| {
            domain.state == State::Active && domain.certificate.as_ref().unwrap().sha256 != before
        })
        .await;
    assert!(!is_paused(&world).await, "everybody had to wait");
    run_sql(&world.url, NOBODY_WAITED).unwrap();
    for domain in waiting {
        assert_eq!(world.domain(domain.id).await, domain, "it does not wait any more");
    }
    for (fault, name, _) in SCOPES {
        assert_eq!(world.struck(fault), 1, "{name} was asked for again meanwhile");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_in_scope_waits_on_sqlite() {
    only_what_is_in_scope_waits(Backend::Sqlite, RECORD_ON_SQLITE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_in_scope_waits_on_postgres() {
    only_what_is_in_scope_waits(Backend::Postgres, RECORD_ON_POSTGRES).await;
}

/// Of many names below one registered domain the first is refused; the others cost a look each, and no request.
#[tokio::test]
async fn names_below_a_registered_domain_that_waits_are_not_asked_for() {
    let world = start(Backend::Sqlite).await;
    world.devnet.faults().set("registered-domain-limit", "limited.test", None).unwrap();
    let first = world.add("first.limited.test").await;
    world.reaches_when(first, "to be deferred", is_deferred).await;
    let all: Vec<_> = (0..20).map(|n| new(&format!("n{n}.limited.test"), None)).collect();
    for added in world.store.add_many(&all).await.unwrap() {
        added.unwrap();
    }
    for one in &all {
        let domain = world.reaches_when(one.id, "to be deferred", is_deferred).await;
        assert!(domain.last_error.unwrap().detail.contains("limited.test"));
    }
    assert_eq!(world.struck("registered-domain-limit"), 1);
    // A person who asks for one is answered by the CA, and not by what it said before.
    world.store.want(first, Wanted::Retry, &actor()).await.unwrap();
    asked(&world, "registered-domain-limit", 2).await;
    world.reaches_when(first, "to be deferred again", is_deferred).await;
    world.devnet.faults().clear_all();
    world.store.want(first, Wanted::Retry, &actor()).await.unwrap();
    world.reaches(first, State::Active).await;
    assert!(is_deferred(&world.domain(all[0].id).await), "others were asked for as well");
}

async fn asked(world: &World, fault: &str, times: u64) {
    eventually(LONG, "the CA to be asked", async || match world.struck(fault) {
        struck if struck >= times => Ok(()),
        struck => Err(struck),
    })
    .await;
}

/// What was deferred joins the queue by itself once its time has come.
#[tokio::test]
async fn a_name_that_was_deferred_comes_back_by_itself() {
    let world = start(Backend::Postgres).await;
    world.devnet.faults().set("order-refused", "429/2", Some(3)).unwrap();
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    let history = world.history(id).await;
    let ordering = history.iter().filter(|state| **state == State::AcmeOrdering).count();
    assert_eq!(ordering, 1, "waiting cost an attempt: {history:?}");
}

/// One name may be odd. Two in a row, and no order made in between: then it is about the account.
#[tokio::test]
async fn a_second_name_that_meets_the_same_stops_the_account() {
    let world = start(Backend::Sqlite).await;
    world.devnet.faults().set("unknown-limit", "*", None).unwrap();
    let first = world.add("first.test").await;
    world.reaches_when(first, "to be deferred", is_deferred).await;
    assert!(!is_paused(&world).await);
    let second = world.add("second.test").await;
    world.reaches_when(second, "to be deferred", is_deferred).await;
    assert!(is_paused(&world).await);
    let third = world.add("third.test").await;
    let domain = world.reaches(third, State::AcmeOrdering).await;
    assert!(domain.queued_at.is_some() && domain.last_error.is_none());
}

/// However many names wait for another reason, and for less long.
async fn many_that_wait_hide_no_stop(backend: Backend) {
    let world = start(backend).await;
    let warm = world.add("warm.test").await;
    world.reaches(warm, State::Active).await;
    let (directory, limits) = (world.devnet.directory_url(), Setup::default().limits);
    let account = world.store.account(&directory, limits).await.unwrap().unwrap().id;
    for n in 0..120 {
        let (name, wait) = (name(&format!("odd-{n}.test")), Duration::from_secs(60));
        let unknown = WaitScope::Unknown;
        world.store.note_wait(account, unknown, &name, wait, "something else").await.unwrap();
    }
    world.devnet.faults().set("unknown-limit", "*", None).unwrap();
    for name in ["first.test", "second.test"] {
        assert!(!is_paused(&world).await, "one name says nothing of the others");
        let id = world.add(name).await;
        world.reaches_when(id, "to be deferred", is_deferred).await;
    }
    assert!(is_paused(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_wait_hide_no_stop_on_sqlite() {
    many_that_wait_hide_no_stop(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_wait_hide_no_stop_on_postgres() {
    many_that_wait_hide_no_stop(Backend::Postgres).await;
}

/// A limit that is met later than at newOrder: the name waits where it is, and loses no attempt.
#[tokio::test]
async fn a_limit_at_the_challenge_is_waited_out_in_place() {
    let world = start(Backend::Sqlite).await;
    world.devnet.faults().set("challenge-limit", "shop.test", Some(2)).unwrap();
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    let history = world.history(id).await;
    assert!(!history.iter().any(|state| state.is_failure()), "{history:?}");
    assert_eq!(world.finalized().await["shop.test"], 1);
}

/// A proxy before the CA counts requests per address, and says so in HTML: only this replica waits.
#[tokio::test]
async fn a_limit_of_our_address_costs_no_name_anything() {
    let world = start(Backend::Sqlite).await;
    let warm = world.add("warm.test").await;
    world.reaches(warm, State::Active).await;
    world.devnet.faults().set("address-limit", "1", Some(3)).unwrap();
    let ids: [DomainId; 2] = [world.add("a.test").await, world.add("b.test").await];
    for id in ids {
        world.reaches(id, State::Active).await;
        let history = world.history(id).await;
        assert!(!history.iter().any(|state| state.is_failure()), "{history:?}");
    }
    assert_eq!(world.struck("address-limit"), 0, "the fault never struck three times");
}

/// The first that fails may be the CA's failing for all; the second time it is set aside, whatever it was told.
#[tokio::test]
async fn a_name_that_is_sent_away_alone_keeps_no_other_waiting() {
    for status in [503, 429] {
        let setup = Setup { policy: patient(), lying: true, issuer_root: true, ..Setup::default() };
        let world = World::start(setup).await;
        let lie = Lie::about(Endpoint::NewOrder).status(status).body("<html>busy");
        let lie = lie.header("retry-after", "3600");
        world.lying().tell(lie);
        let odd = world.add("odd.test").await;
        world.reaches_when(odd, "to be set aside", is_deferred).await;
        world.lying().be_honest();
        let good = world.add("good.test").await;
        world.reaches(good, State::Active).await;
        assert!(is_deferred(&world.domain(odd).await), "{status}");
    }
}

/// What the CA wants done for one name stops no other.
#[tokio::test]
async fn a_name_that_alone_wants_something_done_stops_no_other() {
    let world = start(Backend::Sqlite).await;
    world.devnet.faults().set("action-required", "1", None).unwrap();
    let odd = world.add("odd.test").await;
    world.reaches_when(odd, "to be set aside", is_deferred).await;
    world.devnet.faults().clear_all();
    let good = world.add("good.test").await;
    world.reaches(good, State::Active).await;
    assert!(!is_paused(&world).await);
}

/// A limit that is met in the middle of one order makes that order wait.
#[tokio::test]
async fn an_account_limit_at_a_challenge_keeps_no_order_from_being_made() {
    let setup = Setup { policy: patient(), lying: true, issuer_root: true, ..Setup::default() };
    let world = World::start(setup).await;
    let words = "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute', for account. Try again in 55.47s";
    world.lying().tell(Lie::about(Endpoint::Challenge).problem(429, "rateLimited", words));
    let odd = world.add("odd.test").await;
    world
        .reaches_when(odd, "to wait", |domain| {
            domain.last_error.as_ref().is_some_and(|note| note.code == "acme-rate-limited")
        })
        .await;
    world.lying().be_honest();
    assert!(!is_paused(&world).await);
    let good = world.add("good.test").await;
    world.reaches(good, State::Active).await;
}
