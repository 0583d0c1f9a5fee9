//! The measure: a loop that sends the same commands over one connection, and writes, checks and remembers nothing.

use anyhow::{Result, ensure};
use holdfast_testkit::Haproxy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::certificate::Certificate;

pub(super) struct Bare {
    stream: UnixStream,
    directory: String,
    list: String,
}

impl Bare {
    pub(super) async fn connect(haproxy: &Haproxy) -> Result<Self> {
        let stream = UnixStream::connect(haproxy.socket()).await?;
        let directory = haproxy.path().join("bare").display().to_string();
        let list = haproxy.crt_list().display().to_string();
        let mut bare = Self { stream, directory, list };
        bare.ask("prompt\n").await?;
        Ok(bare)
    }

    async fn ask(&mut self, command: &str) -> Result<String> {
        self.stream.write_all(command.as_bytes()).await?;
        let mut said = Vec::new();
        while !said.ends_with(b"\n> ") {
            ensure!(self.stream.read_buf(&mut said).await? > 0, "HAProxy hung up");
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    async fn put(&mut self, certificate: &Certificate) -> Result<()> {
        let file = format!("{}/{}.pem", self.directory, certificate.name);
        self.ask(&format!("abort ssl cert {file}\n")).await?;
        self.ask(&format!("set ssl cert {file} <<\n{}\n", certificate.pem())).await?;
        let said = self.ask(&format!("commit ssl cert {file}\n")).await?;
        ensure!(said.contains("Success!"), "{said}");
        self.ask(&format!("show ssl cert {file}\n")).await?;
        Ok(())
    }

    /// Adds these; how many per second.
    pub(super) async fn add(&mut self, certificates: &[Certificate]) -> Result<f64> {
        let begun = Instant::now();
        for certificate in certificates {
            let file = format!("{}/{}.pem", self.directory, certificate.name);
            self.ask(&format!("new ssl cert {file}\n")).await?;
            self.put(certificate).await?;
            let (list, name) = (self.list.clone(), &certificate.name);
            self.ask(&format!("add ssl crt-list {list} <<\n{file} {name}\n\n")).await?;
        }
        Ok(certificates.len() as f64 / begun.elapsed().as_secs_f64())
    }

    /// Renews these; how many per second.
    pub(super) async fn renew(&mut self, certificates: &[Certificate]) -> Result<f64> {
        let begun = Instant::now();
        for certificate in certificates {
            self.put(certificate).await?;
        }
        Ok(certificates.len() as f64 / begun.elapsed().as_secs_f64())
    }
}
