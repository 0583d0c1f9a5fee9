//! lego: one process per certificate.

use std::net::Ipv4Addr;

use anyhow::Result;
use holdfast_testkit::Scratch;
use tokio::process::Command;
use tokio::time::Instant;

use super::{Peer, Took, lead, run};
use crate::network::Network;
use crate::process;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 20);
const CERTIFICATES: usize = 2;

/// lego, with an account.
pub struct Lego {
    home: Scratch,
    issued: usize,
}

impl Lego {
    /// Makes its account by a first certificate.
    pub async fn prepare(network: &Network) -> Result<Self> {
        lead(network, "lego.test", ADDRESS).await?;
        let mut lego = Self { home: Scratch::new()?, issued: 0 };
        lego.one(network).await?;
        Ok(lego)
    }

    async fn one(&mut self, network: &Network) -> Result<()> {
        self.issued += 1;
        let mut command = Command::new("lego");
        command
            .env("LEGO_CA_CERTIFICATES", network.root_file())
            .args(["--server", &network.directory(), "--accept-tos", "--email", "ops@lego.test"])
            .arg("--path")
            .arg(self.home.path())
            .args(["--domains", &format!("n{}.lego.test", self.issued), "--http", "--http.port"])
            .args([&format!("{ADDRESS}:{}", network.http_port()), "run"]);
        run(command).await
    }
}

impl Peer for Lego {
    fn name(&self) -> &'static str {
        "lego"
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
