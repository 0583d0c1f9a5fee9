//! `pebble-challtestsrv` as a DNS server whose records a test sets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use http::Request;
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::port::free_port;
use crate::process::Process;

/// A running DNS server that answers every name, by default with 127.0.0.1.
pub struct ChallTestSrv {
    process: Process,
    dns: SocketAddr,
    management: SocketAddr,
    client: Client,
}

impl ChallTestSrv {
    /// Starts it; names nobody set have the address 127.0.0.1 and no IPv6 address.
    pub async fn start() -> Result<Self> {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (dns, management) = (local(free_port()?), local(free_port()?));
        let mut command = Command::new("pebble-challtestsrv");
        command.args(["-dns01", &dns.to_string(), "-management", &management.to_string()]);
        command.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", ""]);
        let process = Process::spawn("pebble-challtestsrv", &command)?;
        let ready = |line: &str| line.contains("Starting management server");
        process.wait_for_line(Duration::from_secs(30), ready).await?;
        let server =
            Self { process, dns, management, client: Client::new(ClientConfig::default())? };
        server.wait_until_it_answers().await?;
        Ok(server)
    }

    /// Where it answers DNS queries, over UDP and TCP.
    pub fn dns(&self) -> SocketAddr {
        self.dns
    }

    /// The server's process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Gives a name these addresses, of one family, in place of those it had.
    pub async fn set_addresses(&self, name: &str, addresses: &[IpAddr]) -> Result<()> {
        let (clear, add) = match addresses.first() {
            Some(IpAddr::V6(_)) => ("clear-aaaa", "add-aaaa"),
            _ => ("clear-a", "add-a"),
        };
        self.post(clear, json!({ "host": dotted(name) })).await?;
        self.post(add, json!({ "host": dotted(name), "addresses": addresses })).await
    }

    /// Makes a name an alias.
    pub async fn set_cname(&self, name: &str, target: &str) -> Result<()> {
        self.post("set-cname", json!({ "host": dotted(name), "target": dotted(target) })).await
    }

    /// Forgets the alias.
    pub async fn clear_cname(&self, name: &str) -> Result<()> {
        self.post("clear-cname", json!({ "host": dotted(name) })).await
    }

    /// Sets a TXT record, as a DNS-01 challenge needs it.
    pub async fn set_txt(&self, name: &str, value: &str) -> Result<()> {
        self.post("set-txt", json!({ "host": dotted(name), "value": value })).await
    }

    /// Drops the name's TXT records.
    pub async fn clear_txt(&self, name: &str) -> Result<()> {
        self.post("clear-txt", json!({ "host": dotted(name) })).await
    }

    /// Makes every query for the name fail with SERVFAIL.
    pub async fn set_servfail(&self, name: &str) -> Result<()> {
        self.post("set-servfail", json!({ "host": dotted(name) })).await
    }

    /// Ends the failing.
    pub async fn clear_servfail(&self, name: &str) -> Result<()> {
        self.post("clear-servfail", json!({ "host": dotted(name) })).await
    }

    async fn post(&self, path: &str, body: Value) -> Result<()> {
        let url = format!("http://{}/{path}", self.management);
        let request = Request::post(url).body(Bytes::from(body.to_string()))?;
        let answer =
            self.client.send(request).await.with_context(|| format!("asking for {path}"))?;
        ensure!(
            answer.status().is_success(),
            "{path} answered {}: {:?}",
            answer.status(),
            answer.body()
        );
        Ok(())
    }

    async fn wait_until_it_answers(&self) -> Result<()> {
        crate::eventually(
            Duration::from_secs(10),
            "the management port of challtestsrv",
            async || tokio::net::TcpStream::connect(self.management).await.map(drop),
        )
        .await;
        crate::eventually(Duration::from_secs(10), "the DNS port of challtestsrv", async || {
            tokio::net::TcpStream::connect(self.dns).await.map(drop)
        })
        .await;
        // Its listener for UDP begins by itself, and a question that comes before is lost without a word.
        crate::eventually(
            Duration::from_secs(10),
            "an answer of challtestsrv over UDP",
            async || is_answered(self.dns).await,
        )
        .await;
        Ok(())
    }
}

/// For the addresses of the root.
const QUESTION: [u8; 17] = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];

async fn is_answered(server: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.send_to(&QUESTION, server).await?;
    timeout(Duration::from_millis(200), socket.recv(&mut [0; 512])).await??;
    Ok(())
}

fn dotted(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.'))
}
