//! Other people's ACME clients as child processes, each in a directory of its own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::world::{World, verify};

/// How long a client may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A network whose names lead to 127.0.0.2, where clients listen, and a directory for the client.
pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) home: TempDir,
    pub(crate) http_port: u16,
    pub(crate) tls_port: u16,
}

impl Bench {
    pub(crate) async fn start(names: &[&str]) -> Self {
        let (http_port, tls_port) = (free_port(), free_port());
        let world = World::start_with(|config| {
            (config.http_port, config.tls_port) = (http_port, tls_port);
        })
        .await;
        for name in names {
            world.net.zone().set(name, "A", "127.0.0.2").unwrap();
        }
        let bench = Self { world, home: tempfile::tempdir().unwrap(), http_port, tls_port };
        bench.write("root.pem", bench.world.net.root_pem());
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file for the client to read.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        use holdfast_gateway::{files, point::Point};
        let path = self.path(name);
        files::write(Point::FILE_OTHER, &path, text.as_bytes(), files::Access::Public).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A script that a client runs, as a file.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.write(name, &format!("#!/bin/sh\nset -eu\n{text}"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A command that sets (or clears) a TXT record through the CA's control routes.
    pub(crate) fn curl(&self, arguments: &str) -> String {
        let (root, url) = (self.path("root.pem"), self.world.net.url("/dev/dns"));
        format!("curl --silent --show-error --fail --cacert {} {arguments} {url}", root.display())
    }

    /// A client with nothing of this machine's configuration.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home.path())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a client to its end, which must be a good one.
    pub(crate) async fn run(&self, mut command: Command) -> String {
        let ran = tokio::time::timeout(LIMIT, command.output()).await;
        let output = ran.expect("the client ends in time").expect("the client is installed");
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success(), "{text}");
        text
    }

    /// Checks a chain that a client has stored.
    pub(crate) fn check(&self, path: &str, name: &str) {
        let chain = std::fs::read_to_string(self.path(path)).unwrap();
        verify(self.world.net.root_pem(), &chain, name).unwrap();
    }

    /// Checks that the CA has finalized one order for a name, once.
    pub(crate) async fn finalized_once(&self, name: &str) {
        let orders = self.world.json(&format!("/dev/orders?name={name}&status=valid")).await;
        assert_eq!(orders.as_array().unwrap().len(), 1, "{orders}");
        assert_eq!(orders[0]["finalized"], 1);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port()
}
