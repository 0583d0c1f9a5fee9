//! A wire to PostgreSQL that goes silent or breaks: nobody waits on it for ever, and what happened meanwhile is not missed.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use holdfast_model::Wanted;
use holdfast_store::{MasterKey, Topic};
use holdfast_testkit::Postgres;
use sqlx::Executor as _;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use crate::{
    kit::*,
    postgres::{raw, replicas},
};

const LONG: Duration = Duration::from_secs(60);

/// A door to the server behind which, on request, nobody answers.
struct Door {
    address: SocketAddr,
    silent: Arc<AtomicBool>,
    ignored: watch::Receiver<usize>,
}

impl Door {
    async fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silent = Arc::new(AtomicBool::new(false));
        let (count, ignored) = watch::channel(0);
        let quiet = silent.clone();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut client, _)) = listener.accept().await {
                if quiet.load(Ordering::SeqCst) {
                    kept.push(client);
                    count.send_replace(kept.len());
                    continue;
                }
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
                });
            }
        });
        Self { address, silent, ignored }
    }
}

async fn hears(ear: &mut watch::Receiver<u64>) {
    timeout(LONG, ear.changed()).await.expect("nothing was heard").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_tells_others_does_not_wait_for_ever_to_be_let_in() {
    let server = Postgres::shared().await.unwrap();
    let (url, master) = (server.database().await.unwrap(), MasterKey::generate().unwrap());
    let mut door = Door::before(server.port()).await;
    let through = url.replace(&format!("127.0.0.1:{}", server.port()), &door.address.to_string());
    let (store, other) = (opened(&through, &master).await, opened(&url, &master).await);
    for replica in [&store, &other] {
        hears_first(&mut replica.wake(Topic::Work)).await;
    }
    let mut ear = other.wake(Topic::Work);
    door.silent.store(true, Ordering::SeqCst);
    // On a connection that is there already; only who tells of it needs a new one.
    add(&store, "shop.example.com").await;
    timeout(LONG, door.ignored.wait_for(|count| *count > 0)).await.unwrap().unwrap();
    door.silent.store(false, Ordering::SeqCst);
    hears(&mut ear).await;
}

async fn hears_first(ear: &mut watch::Receiver<u64>) {
    timeout(LONG, ear.wait_for(|rung| *rung > 0)).await.unwrap().unwrap();
}

/// What is written at any moment around the listener's loss and its return is heard of.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missed_while_a_listener_comes_back() {
    let (store, other, url) = replicas().await;
    let domain = add(&store, "shop.example.com").await;
    let (mut ear, mut raw) = (other.wake(Topic::Work), raw(&url).await);
    hears_first(&mut ear).await;
    let listeners = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                     WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    for round in 0..12_u64 {
        raw.execute(listeners).await.unwrap();
        // Each round a little later: before it is gone, while it is away, while it comes back, after.
        let moment = tokio::time::Instant::now() + Duration::from_millis(round * 15);
        tokio::time::sleep_until(moment).await;
        ear.mark_unchanged();
        store.want(domain.id, Wanted::Retry, &actor()).await.unwrap();
        hears(&mut ear).await;
    }
}
