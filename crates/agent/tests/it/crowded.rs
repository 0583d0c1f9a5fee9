//! Many names, added and renewed while visitors come without pause.

use crate::kit::{Host, Load, Proxied};

const NAMES: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_and_renewed_under_load_without_a_wrong_handshake_or_a_reload() {
    let edge = Proxied::new().await;
    let pid = edge.haproxy.process().unwrap().pid();
    let _running = edge.run();
    let load = Load::start(&edge);
    let hosts: Vec<_> = (0..NAMES).map(|n| format!("n{n}.test")).collect();
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
    println!("{NAMES} names added and renewed under {visits} visits, none of them wrong");
    assert!(visits > 0);
    assert_eq!(edge.haproxy.process().unwrap().pid(), pid);
}
