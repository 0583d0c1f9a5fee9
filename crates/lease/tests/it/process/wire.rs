//! Children cut off from their store: the leader stops in time, its late write is refused, and it is back when the wire is.

use holdfast_testkit::{Postgres, Proxy, Redis, Way};

use super::crew::{Crew, Place};

/// The wires of one child.
struct Wires(Vec<Proxy>);

impl Wires {
    fn each(&self, fault: impl Fn(&Proxy)) {
        self.0.iter().for_each(fault);
    }

    async fn mend(&self) {
        for wire in &self.0 {
            wire.resume().await;
        }
    }
}

/// Strikes the leader's wires with a fault, and looks at what comes of it.
async fn check(crew: Crew<'_>, wires: Vec<Wires>, fault: impl AsyncFn(&Wires)) {
    let term = crew.written_above(0).await;
    let leader = crew.leader(term).await;
    fault(&wires[leader]).await;
    let stopped = format!("led {term} until ");
    crew.said(leader, |line| line.starts_with(&stopped)).await;
    let newer = crew.written_above(term).await;
    wires[leader].mend().await;
    crew.refused(leader, term).await;
    // It contends like any other: alone, it leads.
    for (index, child) in crew.children.iter().enumerate() {
        if index != leader {
            child.kill().await.unwrap();
        }
    }
    crew.led_by(leader, newer).await;
    crew.check().await;
    crew.check_beliefs();
}

async fn on_postgres(fault: impl AsyncFn(&Wires)) {
    let postgres = Postgres::shared().await.unwrap();
    let url = postgres.database().await.unwrap();
    let (mut wires, mut places) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let wire = Proxy::before(postgres.port()).await.unwrap();
        places.push(Place::at(&wire.lead(&url)));
        wires.push(Wires(vec![wire]));
    }
    check(Crew::start(&url, places).await, wires, fault).await;
}

#[tokio::test]
async fn a_leader_that_nothing_reaches_and_that_reaches_nothing() {
    on_postgres(async |wires| {
        wires.each(|wire| {
            wire.hold(Way::ToServer);
            wire.hold(Way::ToClient);
        });
    })
    .await;
}

#[tokio::test]
async fn a_leader_whose_requests_arrive_but_that_hears_no_answer() {
    on_postgres(async |wires| wires.each(|wire| wire.hold(Way::ToClient))).await;
}

#[tokio::test]
async fn a_leader_whose_requests_come_late() {
    on_postgres(async |wires| wires.each(|wire| wire.hold(Way::ToServer))).await;
}

#[tokio::test]
async fn a_leader_whose_connections_are_cut_and_refused() {
    on_postgres(async |wires| {
        for wire in &wires.0 {
            wire.refuse().await;
            wire.cut();
        }
    })
    .await;
}

#[tokio::test]
async fn a_leader_cut_off_from_redis_and_from_its_database() {
    let (postgres, redis) = (Postgres::shared().await.unwrap(), Redis::start().await.unwrap());
    let url = postgres.database().await.unwrap();
    let (mut wires, mut places) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let to_leases = Proxy::before(redis.port()).await.unwrap();
        let to_database = Proxy::before(postgres.port()).await.unwrap();
        let (leases, database) = (to_leases.lead(&redis.url()), to_database.lead(&url));
        places.push(Place { leases, database, ..Place::at(&url) });
        wires.push(Wires(vec![to_leases, to_database]));
    }
    let crew = Crew::start(&url, places).await;
    check(crew, wires, async |wires| {
        wires.each(|wire| {
            wire.hold(Way::ToServer);
            wire.hold(Way::ToClient);
        });
    })
    .await;
}
