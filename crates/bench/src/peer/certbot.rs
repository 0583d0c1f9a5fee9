//! certbot: one process per certificate.

use std::net::Ipv4Addr;

use anyhow::Result;
use holdfast_testkit::Scratch;
use tokio::process::Command;
use tokio::time::Instant;

use super::{Peer, Took, lead, run};
use crate::network::Network;
use crate::process;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 21);
const CERTIFICATES: usize = 2;

/// certbot, with an account.
pub struct Certbot {
    home: Scratch,
    issued: usize,
}

impl Certbot {
    /// Makes its account by a first certificate.
    pub async fn prepare(network: &Network) -> Result<Self> {
        lead(network, "certbot.test", ADDRESS).await?;
        let mut certbot = Self { home: Scratch::new()?, issued: 0 };
        certbot.one(network).await?;
        Ok(certbot)
    }

    async fn one(&mut self, network: &Network) -> Result<()> {
        self.issued += 1;
        let mut command = Command::new("certbot");
        command.env("REQUESTS_CA_BUNDLE", network.root_file()).arg("certonly");
        for directory in ["config", "work", "logs"] {
            command.arg(format!("--{directory}-dir")).arg(self.home.path().join(directory));
        }
        command
            .args(["--server", &network.directory(), "--non-interactive", "--agree-tos"])
            .args(["--email", "ops@certbot.test", "--no-eff-email", "--standalone"])
            .args(["--http-01-address", &ADDRESS.to_string()])
            .args(["--http-01-port", &network.http_port().to_string()])
            .args(["-d", &format!("n{}.certbot.test", self.issued)]);
        run(command).await
    }
}

impl Peer for Certbot {
    fn name(&self) -> &'static str {
        "certbot"
    }

    fn certificates(&self) -> usize {
        CERTIFICATES
    }

    fn at_once(&self) -> usize {
        1
    }

    fn issue<'a>(&'a mut self, network: &'a Network) -> Took<'a> {
        Box::pin(async move {
            let (begun, before) = (Instant::now(), process::cpu_of_ended_children()?);
            for _ in 0..CERTIFICATES {
                self.one(network).await?;
            }
            Ok((begun.elapsed(), process::cpu_of_ended_children()? - before))
        })
    }
}
