//! The measure: a loop that sends the same commands over one connection, as many at once as the agent does, and writes, checks and
//! remembers nothing.

use anyhow::{Result, ensure};
use holdfast_testkit::Haproxy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::certificate::Certificate;

/// So many are shown at once, after they were put in place.
const SHOWN: usize = 32;

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
        self.ask_all(command, 1).await
    }

    /// Sends so many commands at once, and reads all their answers.
    async fn ask_all(&mut self, commands: &str, count: usize) -> Result<String> {
        self.stream.write_all(commands.as_bytes()).await?;
        let (mut said, mut searched, mut prompts) = (Vec::new(), 0, 0);
        while prompts < count {
            ensure!(self.stream.read_buf(&mut said).await? > 0, "HAProxy hung up");
            while let Some(at) = said.get(searched..).and_then(prompt) {
                (searched, prompts) = (searched + at, prompts + 1);
            }
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    async fn put(&mut self, certificate: &Certificate) -> Result<()> {
        let file = format!("{}/{}.pem", self.directory, certificate.name);
        self.ask(&format!("abort ssl cert {file}\n")).await?;
        self.ask(&format!("set ssl cert {file} <<\n{}\n", certificate.pem())).await?;
        let said = self.ask(&format!("commit ssl cert {file}\n")).await?;
        ensure!(said.contains("Success!"), "{said}");
        Ok(())
    }

    async fn show(&mut self, certificates: &[Certificate]) -> Result<()> {
        let show =
            |one: &Certificate| format!("show ssl cert {}/{}.pem\n", self.directory, one.name);
        let commands: String = certificates.iter().map(show).collect();
        self.ask_all(&commands, certificates.len()).await.map(drop)
    }

    /// Adds these; how many per second.
    pub(super) async fn add(&mut self, certificates: &[Certificate]) -> Result<f64> {
        let begun = Instant::now();
        for portion in certificates.chunks(SHOWN) {
            for certificate in portion {
                let file = format!("{}/{}.pem", self.directory, certificate.name);
                self.ask(&format!("new ssl cert {file}\n")).await?;
                self.put(certificate).await?;
                let (list, name) = (self.list.clone(), &certificate.name);
                self.ask(&format!("add ssl crt-list {list} <<\n{file} {name}\n\n")).await?;
            }
            self.show(portion).await?;
        }
        Ok(certificates.len() as f64 / begun.elapsed().as_secs_f64())
    }

    /// Renews these; how many per second.
    pub(super) async fn renew(&mut self, certificates: &[Certificate]) -> Result<f64> {
        let begun = Instant::now();
        for portion in certificates.chunks(SHOWN) {
            for certificate in portion {
                self.put(certificate).await?;
            }
            self.show(portion).await?;
        }
        Ok(certificates.len() as f64 / begun.elapsed().as_secs_f64())
    }
}

/// Where the first answer ends.
fn prompt(text: &[u8]) -> Option<usize> {
    const PROMPT: &[u8] = b"\n> ";
    Some(text.windows(PROMPT.len()).position(|window| window == PROMPT)? + PROMPT.len())
}
