//! Many names, added and renewed while visitors come without pause.

use crate::kit::{Host, Load, Proxied};

/// 200 names, or 1,000 with `HOLDFAST_SOAK`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_and_renewed_under_load_without_a_wrong_handshake_or_a_reload() {
    let count = if std::env::var_os("HOLDFAST_SOAK").is_some() { 1_000 } else { 200 };
    let edge = Proxied::new().await;
    let pid = edge.haproxy.process().unwrap().pid();
    let _running = edge.run();
    let load = Load::start(&edge);
    let hosts: Vec<_> = (0..count).map(|n| format!("n{n}.test")).collect();
    for part in hosts.chunks(50) {
        let deployed: Vec<_> = part.iter().map(|host| (host, edge.deploy(host))).collect();
        for (host, sha256) in deployed {
            edge.memory.until_seen(host, Some(&sha256)).await;
            load.serves(host, Host::Only(sha256));
        }
    }
    load.one_more_round().await;
    for part in hosts.chunks(50) {
        for host in part {
            load.serves(host, Host::Any);
        }
        let renewed: Vec<_> = part.iter().map(|host| (host, edge.deploy(host))).collect();
        for (host, sha256) in renewed {
            edge.memory.until_seen(host, Some(&sha256)).await;
            load.serves(host, Host::Only(sha256));
        }
    }
    load.one_more_round().await;
    let visits = load.stop().await;
    println!("{count} names added and renewed under {visits} visits, none of them wrong");
    assert!(visits > 0);
    assert_eq!(edge.haproxy.process().unwrap().pid(), pid);
}
