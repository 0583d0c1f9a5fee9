//! The embedded CA and DNS zone, as a process of their own, and their control routes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use holdfast_testkit::{Process, Scratch, free_port};
use http::Method;
use serde_json::{Value, json};

use crate::web::Web;

const START_LIMIT: Duration = Duration::from_secs(20);

/// A running `holdfast dev net`.
pub struct Network {
    process: Process,
    web: Web,
    ports: Ports,
    holdfast: PathBuf,
    data: Scratch,
}

/// Where it listens, and where it looks.
#[derive(Clone, Copy, Debug)]
struct Ports {
    ca: u16,
    dns: u16,
    http: u16,
    tls: u16,
}

impl Network {
    /// Starts it on free ports, with nothing in it.
    pub async fn start(holdfast: &Path) -> Result<Self> {
        let data = Scratch::new()?;
        let ports =
            Ports { ca: free_port()?, dns: free_port()?, http: free_port()?, tls: free_port()? };
        let process = run(holdfast, &data, ports).await?;
        let root = std::fs::read_to_string(data.path().join("dev-ca.pem"))?;
        let web = Web::new(&format!("https://127.0.0.1:{}", ports.ca), Some(&root), None)?;
        Ok(Self { process, web, ports, holdfast: holdfast.to_owned(), data })
    }

    /// Kills it and starts it again, where it was and with what it had.
    pub async fn kill_and_restart(&mut self) -> Result<()> {
        self.process.kill().await?;
        self.process = run(&self.holdfast, &self.data, self.ports).await?;
        Ok(())
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The ACME directory.
    #[must_use]
    pub fn directory(&self) -> String {
        format!("{}/directory", self.web.base())
    }

    /// The root of its own TLS and of what it issues: a file.
    #[must_use]
    pub fn root_file(&self) -> PathBuf {
        self.data.path().join("dev-ca.pem")
    }

    /// Its control routes.
    #[must_use]
    pub fn web(&self) -> &Web {
        &self.web
    }

    /// Where the zone answers.
    #[must_use]
    pub fn dns(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.dns).into()
    }

    /// The port where HTTP-01 is fetched.
    #[must_use]
    pub fn http_port(&self) -> u16 {
        self.ports.http
    }

    /// The port where TLS-ALPN-01 is asked.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.ports.tls
    }

    /// Sets a record of the zone.
    pub async fn record(&self, name: &str, kind: &str, value: &str) -> Result<()> {
        let record = json!({ "name": name, "type": kind, "value": value });
        self.web.ask(Method::PUT, "/dev/dns", Some(&record)).await?;
        Ok(())
    }

    /// Lets everything below a name lead to an address, by way of a target as customers would; gives the target.
    pub async fn lead(&self, suffix: &str, address: Ipv4Addr) -> Result<String> {
        let target = format!("edge.{suffix}");
        self.record(&target, "A", &address.to_string()).await?;
        self.record(&format!("*.{suffix}"), "CNAME", &target).await?;
        Ok(target)
    }

    /// Switches a fault on.
    pub async fn fault(&self, kind: &str, value: &str) -> Result<()> {
        let path = format!("/dev/faults/{kind}");
        self.web.ask(Method::PUT, &path, Some(&json!({ "value": value }))).await?;
        Ok(())
    }

    /// Switches all faults off.
    pub async fn no_faults(&self) -> Result<()> {
        self.web.ask(Method::DELETE, "/dev/faults", None).await?;
        Ok(())
    }

    /// The orders of a name, or all.
    pub async fn orders(&self, name: Option<&str>) -> Result<Vec<Value>> {
        let path = name
            .map_or_else(|| "/dev/orders".to_owned(), |name| format!("/dev/orders?name={name}"));
        let orders = self.web.get(&path).await?;
        Ok(orders.as_array().context("orders are a list")?.clone())
    }

    /// The accounts.
    pub async fn accounts(&self) -> Result<Vec<Value>> {
        let accounts = self.web.get("/dev/accounts").await?;
        Ok(accounts.as_array().context("accounts are a list")?.clone())
    }
}

async fn run(holdfast: &Path, data: &Scratch, ports: Ports) -> Result<Process> {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
    let mut command = Command::new(holdfast);
    command
        .args(["dev", "net", "--ca", &at(ports.ca), "--dns", &at(ports.dns)])
        .args(["--http-port", &ports.http.to_string(), "--tls-port", &ports.tls.to_string()])
        .arg("--data")
        .arg(data.path());
    let process = Process::spawn("holdfast dev net", &command)?;
    process.wait_for_line(START_LIMIT, |line| line.contains("Ctrl-C ends it")).await?;
    Ok(process)
}
