//! A flood keeps nobody waiting: neither names without an answer a renewal, nor renewals a new name, nor one replica the others.

use std::{collections::HashMap, time::Duration};

use holdfast_model::{Domain, DomainId, State, Wanted};
use holdfast_store::{DomainFilter, OrderLimits, Page};
use holdfast_testkit::{
    dns::{Behaviour, Server, records},
    eventually,
};
use tokio::{net::UdpSocket, time::Instant};

use crate::kit::{Backend, Setup, World, actor, new, patient};

async fn add_many(world: &World, prefix: &str, count: usize) {
    let all: Vec<_> = (0..count).map(|n| new(&format!("{prefix}-{n}.test"), None)).collect();
    for added in world.store.add_many(&all).await.unwrap() {
        added.unwrap();
    }
}

async fn count(world: &World, state: State) -> u64 {
    let counts: HashMap<_, _> = world.store.counts().await.unwrap().into_iter().collect();
    counts.get(&state).copied().unwrap_or_default()
}

async fn renewed(world: &World, before: &Domain) -> Domain {
    let first = before.certificate.clone().unwrap();
    world
        .reaches_when(before.id, "another certificate", |domain| {
            let other = |one: &holdfast_model::CertificateSummary| one.sha256 != first.sha256;
            domain.state == State::Active && domain.certificate.as_ref().is_some_and(other)
        })
        .await
}

/// More names than there is room for, whose resolver keeps silent: a whole look at each takes seconds. In the order in which they became
/// due, everybody else would wait until each of them had one.
async fn names_without_an_answer_keep_nobody_waiting(backend: Backend) {
    let setup = Setup { backend, concurrency: 16, policy: patient(), ..Setup::default() };
    let world = World::start(setup).await;
    let id = world.add("shop.test").await;
    let active = world.reaches(id, State::Active).await;
    let silent: Vec<_> = (0..400).map(|n| format!("silent-{n}.test")).collect();
    world.devnet.faults().set("dns-timeout", &silent.join(","), None).unwrap();
    add_many(&world, "silent", 400).await;
    eventually(Duration::from_secs(30), "the flood to be begun", async || {
        match count(&world, State::DnsVerifying).await {
            0 => Err("none is"),
            _ => Ok(()),
        }
    })
    .await;
    world.store.want(id, Wanted::Renew, &actor()).await.unwrap();
    renewed(&world, &active).await;
    let filter = DomainFilter { state: Some(State::DnsVerifying), ..DomainFilter::default() };
    let page = Page { limit: 500, after: None };
    let silent = world.store.domains(&filter, &page).await.unwrap().items;
    let waiting = silent.iter().filter(|domain| domain.attempt == 0).count();
    assert!(waiting > 0, "the renewal waited until each of them had a whole look");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_without_an_answer_keep_nobody_waiting_on_sqlite() {
    names_without_an_answer_keep_nobody_waiting(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_without_an_answer_keep_nobody_waiting_on_postgres() {
    names_without_an_answer_keep_nobody_waiting(Backend::Postgres).await;
}

/// Names whose DNS is silent come first, and as many as this; names that answer are served as if those were not there.
async fn silent_names_delay_no_new_one(backend: Backend, concurrency: u32, silent: usize) {
    let zone = [("*.silent.test", Behaviour::Silent), ("*", pointed())];
    let resolver = Server::start(zone).await;
    let resolver = Some(resolver.address);
    let setup = Setup { backend, concurrency, policy: patient(), resolver, ..Setup::default() };
    let world = World::start(setup).await;
    let began = Instant::now();
    let of = |suffix: &str, count: usize| -> Vec<_> {
        (0..count).map(|n| new(&format!("n{n}.{suffix}"), None)).collect()
    };
    let silent = of("silent.test", silent);
    let all: Vec<_> = silent.iter().cloned().chain(of("good.test", 100)).collect();
    for added in world.store.add_many(&all).await.unwrap() {
        added.unwrap();
    }
    eventually(Duration::from_secs(120), "all that answer are Active", async || {
        match count(&world, State::Active).await {
            100 => Ok(()),
            active => Err(format!("{active} are Active")),
        }
    })
    .await;
    // A look at each of the silent ones takes six seconds, and there are many for each place.
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    // They are looked at as long and as often as ever, and told why they wait.
    let told = async |code: &str, attempt: u32| {
        world
            .reaches_when(silent[0].id, code, |domain| {
                let is_code = domain.last_error.as_ref().is_some_and(|note| note.code == code);
                is_code && domain.attempt == attempt && domain.state == State::DnsVerifying
            })
            .await
    };
    told("dns-timeout", 1).await;
    told("dns-timeout", 2).await;
}

fn pointed() -> Behaviour {
    Behaviour::Records(records(&["CNAME edge.holdfast.test"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_names_delay_no_new_one_on_sqlite() {
    silent_names_delay_no_new_one(Backend::Sqlite, 64, 600).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_names_delay_no_new_one_on_postgres() {
    silent_names_delay_no_new_one(Backend::Postgres, 64, 600).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_names_delay_no_new_one_where_there_is_one_place() {
    silent_names_delay_no_new_one(Backend::Sqlite, 1, 20).await;
}

/// Silent names that people ask for are in the lane of new ones, and each takes a whole look.
async fn silent_names_that_are_asked_for_delay_no_new_one(backend: Backend) {
    let zone = [("*.silent.test", Behaviour::Silent), ("*", pointed())];
    let resolver = Server::start(zone).await;
    let resolver = Some(resolver.address);
    let setup = Setup { backend, concurrency: 4, policy: patient(), resolver, ..Setup::default() };
    let world = World::start(setup).await;
    let mut silent = Vec::new();
    for n in 0..100 {
        silent.push(world.add(&format!("n{n}.silent.test")).await);
    }
    for id in &silent {
        world
            .reaches_when(*id, "to be known as silent", |domain| {
                domain.last_error.as_ref().is_some_and(holdfast_model::Note::is_silence_of_dns)
            })
            .await;
    }
    for id in &silent {
        world.store.want(*id, Wanted::Retry, &actor()).await.unwrap();
    }
    let began = Instant::now();
    add_many(&world, "good", 20).await;
    eventually(Duration::from_secs(120), "all that answer are Active", async || {
        match count(&world, State::Active).await {
            20 => Ok(()),
            active => Err(format!("{active} are Active")),
        }
    })
    .await;
    // A look at each of the silent ones takes several seconds, and there are twenty-five for each place.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_names_that_are_asked_for_delay_no_new_one_on_sqlite() {
    silent_names_that_are_asked_for_delay_no_new_one(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_names_that_are_asked_for_delay_no_new_one_on_postgres() {
    silent_names_that_are_asked_for_delay_no_new_one(Backend::Postgres).await;
}

/// Renewals that wait for their orders, one of which is in flight at a time: a new name has its turn among them, not after them.
async fn renewals_keep_no_new_name_waiting(backend: Backend) {
    let limits = OrderLimits { per_3h: 100_000, in_flight: 1 };
    let world = World::start(Setup { backend, limits, ..Setup::default() }).await;
    let mut ids: Vec<DomainId> = Vec::new();
    for n in 0..40 {
        ids.push(world.add(&format!("old-{n}.test")).await);
    }
    for id in &ids {
        world.reaches(*id, State::Active).await;
    }
    world.devnet.faults().set("slow-validation", "500", None).unwrap();
    for id in &ids {
        world.store.want(*id, Wanted::Renew, &actor()).await.unwrap();
    }
    let late = world.add("late.test").await;
    world.reaches(late, State::Active).await;
    assert!(count(&world, State::AcmeOrdering).await > 10, "it waited for all renewals");
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_keep_no_new_name_waiting_on_sqlite() {
    renewals_keep_no_new_name_waiting(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_keep_no_new_name_waiting_on_postgres() {
    renewals_keep_no_new_name_waiting(Backend::Postgres).await;
}

/// One replica whose resolver never answers holds no more than it has room for; all others are seen to by the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_with_slow_domains_starves_no_other() {
    let silence = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let resolver = Some(silence.local_addr().unwrap());
    let setup = Setup {
        backend: Backend::Postgres,
        policy: patient(),
        engines: 2,
        concurrency: 8,
        resolver,
        ..Setup::default()
    };
    let world = World::start(setup).await;
    let mut heard = [0; 512];
    add_many(&world, "crowd", 200).await;
    // The slow one has work, and is slow at it.
    silence.recv_from(&mut heard).await.unwrap();
    eventually(Duration::from_secs(60), "all but what the slow one holds", async || {
        match count(&world, State::Active).await {
            active if active >= 192 => Ok(()),
            active => Err(format!("{active} are Active")),
        }
    })
    .await;
}
