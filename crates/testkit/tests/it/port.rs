//! Ports are handed out once, to whom they are handed.

use std::collections::HashSet;
use std::net::TcpListener;

use holdfast_testkit::free_port;

#[test]
fn no_port_is_given_twice_also_between_threads() {
    let ports = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..20).map(|_| free_port().unwrap()).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let different: HashSet<_> = ports.iter().collect();
    assert_eq!(different.len(), ports.len());
    assert!(ports.iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()));
}
