//! How fast it issues: a bare instant-acme loop, with nothing of Holdfast in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use instant_acme::{Account, NewAccount};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Acme, http};
use crate::web::Web;
use crate::world::{World, issue};

/// Issues `count` certificates with `in_flight` tasks, at any CA that fetches HTTP-01 from `web`; how long it took.
pub(crate) async fn bare_loop(
    directory: &str,
    root_pem: &str,
    web: &Web,
    count: usize,
    in_flight: usize,
) -> Duration {
    let http = http(root_pem);
    let new =
        NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };
    let builder = Account::builder_with_http(Box::new(Acme(http)));
    let (account, _) = builder.create(&new, directory.to_owned(), None).await.unwrap();
    let (account, next) = (Arc::new(account), Arc::new(AtomicUsize::new(0)));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight {
        let (web, account, next) = (web.clone(), account.clone(), next.clone());
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                issue(&account, &web, &[&format!("n{number}.bare.test")]).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    begun.elapsed()
}

async fn check(world: &World) {
    let (directory, root) = (world.net.directory_url(), world.net.root_pem());
    let count = 500;
    let took = bare_loop(&directory, root, &world.web, count, 64).await;
    let rate = count as f64 / took.as_secs_f64();
    println!("{count} certificates in {took:?}: {rate:.0} per second");
    let orders = world.json("/dev/orders").await;
    let orders = orders.as_array().unwrap();
    assert_eq!(orders.len(), count);
    assert!(orders.iter().all(|order| order["finalized"] == 1 && order["status"] == "valid"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_at_once_all_succeed() {
    check(&World::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_at_once_all_succeed_with_a_journal() {
    let data = tempfile::tempdir().unwrap();
    check(&World::start_with(|config| config.data = Some(data.path().to_owned())).await).await;
}
