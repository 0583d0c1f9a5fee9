//! What stands before several replicas: HAProxy, which asks each whether it is ready.

use holdfast_testkit::{Process, Scratch, eventually};
use tokio::net::TcpStream;

use crate::kit::{SOON, program_named};

/// A running HAProxy; dropping it ends it.
pub(crate) struct Balancer {
    _process: Process,
    _scratch: Scratch,
}

impl Balancer {
    /// Connections to `port` go to those of the replicas, by their ports, that say they are ready.
    pub(crate) async fn start(port: u16, replicas: &[u16]) -> Self {
        let scratch = Scratch::new().unwrap();
        let config = scratch.write("haproxy.cfg", text(port, replicas)).unwrap();
        let mut command = program_named("haproxy");
        command.arg("-db").arg("-f").arg(config);
        let process = Process::spawn("haproxy", &command).unwrap();
        eventually(SOON, "HAProxy to listen", async || {
            TcpStream::connect(("127.0.0.1", port)).await
        })
        .await;
        Self { _process: process, _scratch: scratch }
    }
}

/// A connection that was not made is tried elsewhere; a request that was sent is not repeated.
fn text(port: u16, replicas: &[u16]) -> String {
    let servers: String = replicas
        .iter()
        .map(|port| format!("  server r{port} 127.0.0.1:{port} check inter 100ms fall 1 rise 1\n"))
        .collect();
    format!(
        "global\n  maxconn 2000\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 60s\n  timeout server 60s\n  timeout check 5s\n  retries 3\n  option redispatch 1\n\
         frontend api\n  bind 127.0.0.1:{port}\n  default_backend replicas\n\
         backend replicas\n  balance roundrobin\n  option httpchk GET /health/ready\n  http-response set-header x-replica %s\n{servers}"
    )
}
