//! HAProxy with a bind for certificates, and its Runtime API.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;

/// A HAProxy of a test's own. Its list of certificates must be there before it is started.
pub struct Haproxy {
    directory: Scratch,
    https: SocketAddr,
    /// What else has certificates on the same bind, in this order, before ours.
    others: String,
    /// Another bind, with a list of its own.
    internal: Option<(SocketAddr, PathBuf)>,
    global: String,
    /// Which threads take commands, and which serve.
    threads: [&'static str; 2],
    process: Option<Process>,
}

impl Haproxy {
    /// A directory and a port; nothing runs yet.
    pub fn prepare() -> Result<Self> {
        let https = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        Ok(Self {
            directory: Scratch::new()?,
            https,
            others: String::new(),
            internal: None,
            global: String::new(),
            threads: [""; 2],
            process: None,
        })
    }

    /// Gives the commands a thread of their own; that takes two processors at least.
    #[must_use]
    pub fn with_thread_for_commands(mut self) -> Self {
        self.threads = [" thread 1", " thread 2-"];
        self
    }

    /// Puts another list on the bind, before ours.
    #[must_use]
    pub fn with_list(mut self, list: &Path) -> Self {
        self.others.push_str(&format!("crt-list {} ", list.display()));
        self
    }

    /// Puts a directory of certificates, or a file, on the bind, before ours.
    #[must_use]
    pub fn with_directory(mut self, directory: &Path) -> Self {
        self.others.push_str(&format!("crt {} ", directory.display()));
        self
    }

    /// Has another bind with this list; gives where it serves.
    pub fn with_internal(mut self, list: &Path) -> Result<(Self, SocketAddr)> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        self.internal = Some((address, list.to_owned()));
        Ok((self, address))
    }

    /// Adds a line to its global section, such as `tune.bufsize 32768`.
    #[must_use]
    pub fn with_global(mut self, line: &str) -> Self {
        self.global.push_str(&format!("    {line}\n"));
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Its directory, to write files in.
    pub fn scratch(&self) -> &Scratch {
        &self.directory
    }

    /// Where certificates lie.
    pub fn certificates(&self) -> PathBuf {
        self.path().join("certs")
    }

    /// The list on its bind.
    pub fn crt_list(&self) -> PathBuf {
        self.path().join("crt-list")
    }

    /// Its Runtime API.
    pub fn socket(&self) -> PathBuf {
        self.path().join("admin.sock")
    }

    /// Where it serves.
    pub fn https(&self) -> SocketAddr {
        self.https
    }

    /// Its process, while it runs.
    pub fn process(&self) -> Result<&Process> {
        self.process.as_ref().context("HAProxy does not run")
    }

    /// The configuration, as text.
    fn config(&self) -> String {
        let internal = self.internal.as_ref().map(|(address, list)| {
            let list = list.display();
            format!("frontend internal\n    bind {address} ssl crt-list {list}\n    http-request return status 200\n")
        });
        let (socket, global, https) = (self.socket(), &self.global, self.https);
        let (others, internal) = (&self.others, internal.unwrap_or_default());
        let [commands, visitors] = self.threads;
        format!(
            "global\n    stats socket {} mode 600 level admin expose-fd listeners{commands}\n    maxconn 2000\n{global}\
             defaults\n    mode http\n    timeout client 30s\n    timeout server 30s\n    timeout connect 5s\n\
             frontend tls\n    bind {https} ssl {others}crt-list {} alpn h2,http/1.1{visitors}\n    http-request return status 200\n\
             {internal}",
            socket.display(),
            self.crt_list().display(),
        )
    }

    /// Starts it, and waits until it answers.
    pub async fn start(&mut self) -> Result<()> {
        self.launch(&[]).await
    }

    async fn launch(&mut self, arguments: &[String]) -> Result<()> {
        let config = self.directory.write("haproxy.cfg", self.config())?;
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(config).args(arguments);
        let process = Process::spawn("haproxy", &command)?;
        let wanted = format!("Pid: {}", process.pid());
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            if self.ask("show info").await.is_ok_and(|said| said.lines().any(|line| line == wanted))
            {
                self.process = Some(process);
                return Ok(());
            }
            if process.status().is_some() || tokio::time::Instant::now() > deadline {
                bail!("HAProxy does not start:\n{}", process.log());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> Result<()> {
        if let Some(process) = self.process.take() {
            process.kill().await?;
        }
        Ok(())
    }

    /// Kills it and starts it again.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill().await?;
        self.start().await
    }

    /// A new process takes the listeners over, as `systemctl reload haproxy` does; the old one, which serves what it began,
    /// is given back.
    pub async fn reload(&mut self) -> Result<Process> {
        let old = self.process.take().context("HAProxy does not run")?;
        let arguments = [
            "-x".to_owned(),
            self.socket().display().to_string(),
            "-sf".to_owned(),
            old.pid().to_string(),
        ];
        self.launch(&arguments).await?;
        Ok(old)
    }

    /// Sends a command, which may have a payload, by hand.
    pub async fn ask(&self, command: &str) -> Result<String> {
        let mut stream = UnixStream::connect(self.socket()).await?;
        stream.write_all(format!("{command}\n").as_bytes()).await?;
        let mut said = String::new();
        tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut said)).await??;
        Ok(said.trim().to_owned())
    }
}
