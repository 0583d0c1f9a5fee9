//! What is left when a test process is killed: nothing. The victim is this test binary, started again.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use holdfast_testkit::{Durability, Postgres, Process, Redis, Scratch, eventually};
use tokio::net::TcpStream;

const VICTIM: &str = "HOLDFAST_TEST_VICTIM";
const SOON: Duration = Duration::from_secs(20);

/// Starts peers and waits to be killed; but only in a process started by [`start`].
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how the test tells its child what to do")]
async fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let postgres = Postgres::start(Durability::Relaxed).await.unwrap();
    let redis = Redis::start().await.unwrap();
    println!(
        "\nstarted {} {} {}",
        postgres.port(),
        redis.port(),
        postgres.data_directory().display()
    );
    std::future::pending::<()>().await;
}

async fn start() -> (Process, [u16; 2], PathBuf) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["orphan::victim", "--exact", "--nocapture"]).env(VICTIM, "1");
    let process = Process::spawn("victim", &command).unwrap();
    let line = process.wait_for_line(SOON, |line| line.starts_with("started")).await.unwrap();
    let words: Vec<_> = line.split(' ').collect();
    (process, [words[1].parse().unwrap(), words[2].parse().unwrap()], words[3].into())
}

#[tokio::test]
async fn peers_of_a_killed_test_end_and_its_data_is_removed_by_the_next() {
    let (victim, ports, data) = start().await;
    for port in ports {
        TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    }
    victim.kill().await.unwrap();
    for port in ports {
        eventually(SOON, "a peer of a killed process to end", async || {
            match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(_) => Err("still there"),
                Err(_) => Ok(()),
            }
        })
        .await;
    }
    eventually(SOON, "the data to be removed by who comes next", async || {
        let _reaps = Scratch::new().unwrap();
        if data.exists() { Err("still there") } else { Ok(()) }
    })
    .await;
}
