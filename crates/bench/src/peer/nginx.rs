//! nginx, serving one small file: as fast as challenge answers can be.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_testkit::{Process, Scratch, free_port};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// A running nginx.
pub struct Nginx {
    _workers: Vec<Process>,
    address: SocketAddr,
    _home: Scratch,
}

impl Nginx {
    /// Serves a text at a path.
    pub async fn serve(path: &str, text: &str) -> Result<Self> {
        let (home, address) =
            (Scratch::new()?, SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
        let root = home.path().join("root");
        let file = root.join(path.trim_start_matches('/'));
        if let Some(directory) = file.parent() {
            std::fs::create_dir_all(directory)?;
        }
        home.write(&format!("root{path}"), text)?;
        let config = home.write("nginx.conf", settings(&home, address))?;
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-p").arg(home.path()).arg("-c").arg(config);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<Process> =
            (0..cores).map(|_| Process::spawn("nginx", &command)).collect::<Result<_>>()?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).await.is_err() {
            let said = || workers.iter().map(Process::log).collect::<String>();
            ensure!(Instant::now() < deadline, "nginx does not serve:\n{}", said());
            sleep(Duration::from_millis(5)).await;
        }
        Ok(Self { _workers: workers, address, _home: home })
    }

    /// Where it serves.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn settings(home: &Scratch, address: SocketAddr) -> String {
    let home = home.path().display();
    // One process per core without a master over them: a master that is killed leaves its workers behind.
    format!(
        "daemon off;\nmaster_process off;\npid {home}/nginx.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; open_file_cache max=100; default_type text/plain;\n\
         keepalive_requests 1000000;\n\
         server {{ listen {address} reuseport; root {home}/root; }} }}\n"
    )
}
