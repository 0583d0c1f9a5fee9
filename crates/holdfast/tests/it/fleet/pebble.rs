//! The same with a CA that is not ours.

use holdfast_testkit::{ChallTestSrv, Pebble, PebbleConfig, free_port};

use super::{
    judge,
    member::{Fleet, Plan},
    strike,
};
use crate::{kit::word, replica::Network};

/// Pebble is an independent judge, and one that hangs when it is asked too much at once: few domains, few at a time.
#[tokio::test]
async fn chaos_at_pebble() {
    let dns = ChallTestSrv::start().await.unwrap();
    let (http, tls) = (free_port().unwrap(), free_port().unwrap());
    let pebble = Pebble::start(&PebbleConfig::new(dns.dns(), http, tls)).await.unwrap();
    let names: Vec<String> = (0..30).map(|at| format!("customer-{at}.example.com")).collect();
    for name in &names {
        dns.set_cname(name, "edge.holdfast.test").await.unwrap();
    }
    let told = [
        ("HOLDFAST__ACME__DIRECTORY", pebble.directory_url()),
        ("HOLDFAST__ACME__ROOT_CERTIFICATE", word(&pebble.tls_root_file())),
        ("HOLDFAST__ACME__MAX_ORDERS_IN_FLIGHT", "8".to_owned()),
        ("HOLDFAST__DNS__RESOLVERS", format!("[\"{}\"]", dns.dns())),
    ];
    let plan = Plan { environment: Box::new(move |_, _| told.to_vec()), ..Plan::default() };
    let mut fleet = Fleet::start_in(Network::start_at(http, tls).await, plan).await;
    judge::add(&fleet, &names).await;
    for blow in 0..6 {
        strike(&mut fleet, blow).await;
    }
    judge::all_active(&fleet, &names).await;
    judge::gapless(&fleet, &names).await;
    judge::nothing_left(&fleet).await;
    assert_eq!(fleet.count("SELECT count(*) FROM certificate"), 30, "one for each");
}
