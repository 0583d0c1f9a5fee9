//! One conversation with HAProxy's Runtime API, over its Unix socket or TCP.
//!
//! In interactive mode one connection carries any number of commands; each answer ends with a prompt. Commands may be sent before
//! the answers to those before them are heard: HAProxy takes them in order. A command that changes something passes a crash
//! point. What the answers mean is known elsewhere.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use holdfast_gateway::point::{Point, around};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

use crate::{Error, Result};

/// The longest time for one answer.
const LIMIT: Duration = Duration::from_secs(10);

/// What a payload is framed by.
const FRAME: &str = " <<\n\n";

/// What ends an answer in interactive mode.
const PROMPT: &[u8] = b"\n> ";

/// How every answer ends while somebody else works on certificates.
const LOCKED: &str = "certificates are currently locked!";

/// So many commands are sent before their answers are read.
const AT_ONCE: usize = 100;

/// Where HAProxy takes commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// An address.
    Tcp(SocketAddr),
}

impl FromStr for RuntimeAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Tcp(address));
        }
        match text.strip_prefix("unix@").unwrap_or(text) {
            path if path.starts_with('/') => Ok(Self::Unix(path.into())),
            _ => Err("it is neither an absolute path nor an IP address with a port"),
        }
    }
}

impl fmt::Display for RuntimeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A process of HAProxy: a restart or a reload makes another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity(String);

pub(super) struct Runtime {
    stream: Box<dyn Stream>,
    address: String,
    read: Vec<u8>,
    /// So many answers are still to come, beside those that came while another was waited for.
    owed: usize,
    unheard: VecDeque<String>,
    /// The largest command that HAProxy can take.
    bufsize: usize,
    /// Does HAProxy read PEM in long lines, as far as is known?
    pub(super) reads_wide: bool,
    last: Instant,
}

impl Runtime {
    pub(super) async fn connect(address: &RuntimeAddress, bufsize: usize) -> Result<Self> {
        let shown = address.to_string();
        let failed = |source| Error::Proxy { address: shown.clone(), source };
        let connect = async {
            Ok::<Box<dyn Stream>, io::Error>(match address {
                RuntimeAddress::Unix(path) => Box::new(UnixStream::connect(path).await?),
                RuntimeAddress::Tcp(address) => {
                    let tcp = TcpStream::connect(address).await?;
                    tcp.set_nodelay(true)?;
                    Box::new(tcp)
                }
            })
        };
        let stream = tokio::time::timeout(LIMIT, connect).await.map_err(|_| failed(late()))?;
        let stream = stream.map_err(failed)?;
        let mut runtime = Self {
            stream,
            address: address.to_string(),
            read: Vec::new(),
            owed: 0,
            unheard: VecDeque::new(),
            bufsize,
            reads_wide: true,
            last: Instant::now(),
        };
        runtime.ask("prompt").await?;
        Ok(runtime)
    }

    /// Was nothing said for so long that HAProxy may hang up any moment? It does after ten seconds unless told otherwise.
    pub(super) fn is_stale(&self) -> bool {
        self.last.elapsed() > Duration::from_secs(4)
    }

    /// Asks for something that changes nothing.
    pub(super) async fn ask(&mut self, command: &str) -> Result<String> {
        self.send(format!("{command}\n").as_bytes(), 1).await?;
        self.latest(1).await.map(|said| said.concat())
    }

    /// Asks many such things; an answer each, in order.
    pub(super) async fn ask_all(&mut self, commands: &[String]) -> Result<Vec<String>> {
        let mut answers = Vec::with_capacity(commands.len());
        for part in commands.chunks(AT_ONCE) {
            let text: String = part.iter().map(|command| format!("{command}\n")).collect();
            self.send(text.as_bytes(), part.len()).await?;
            answers.extend(self.latest(part.len()).await?);
        }
        Ok(answers)
    }

    /// Sends a command that changes something.
    pub(super) async fn change(&mut self, command: &str) -> Result<String> {
        self.tell(command).await?;
        self.latest(1).await.map(|said| said.concat())
    }

    /// Sends a command that changes something with each of these payloads; an answer each, in order.
    pub(super) async fn change_all(
        &mut self,
        command: &str,
        payloads: &[String],
    ) -> Result<Vec<String>> {
        let mut answers = Vec::with_capacity(payloads.len());
        for part in payloads.chunks(AT_ONCE) {
            for payload in part {
                self.tell_with(command, payload).await?;
            }
            answers.extend(self.latest(part.len()).await?);
        }
        Ok(answers)
    }

    /// Sends one and does not wait for the answer: [`heard`](Self::heard) gives it.
    pub(super) async fn tell(&mut self, command: &str) -> Result<()> {
        around(Point::EDGE_HAPROXY, self.send(format!("{command}\n").as_bytes(), 1)).await
    }

    /// The same with a payload, which must have no blank lines and end with a line's end.
    pub(super) async fn tell_with(&mut self, command: &str, payload: &str) -> Result<()> {
        self.fits(command, payload)?;
        let text = zeroize::Zeroizing::new(format!("{command} <<\n{payload}\n"));
        around(Point::EDGE_HAPROXY, self.send(text.as_bytes(), 1)).await
    }

    /// Asks to be shown a certificate; [`heard`](Self::heard) gives the answer.
    pub(super) async fn tell_to_show(&mut self, file: &str) -> Result<()> {
        self.send(format!("show ssl cert {file}\n").as_bytes(), 1).await
    }

    /// The next answer to what was told.
    pub(super) async fn heard(&mut self) -> Result<String> {
        match self.unheard.pop_front() {
            Some(answer) => Ok(answer),
            None => self.answer().await,
        }
    }

    /// Was every answer heard?
    pub(super) fn is_quiet(&self) -> bool {
        self.owed == 0 && self.unheard.is_empty()
    }

    /// A larger command would be dropped, and the connection with it.
    pub(super) fn fits(&self, command: &str, payload: &str) -> Result<()> {
        let bytes = command.len() + payload.len() + FRAME.len();
        if bytes >= self.bufsize {
            return Err(Error::PayloadTooLarge { bytes, limit: self.bufsize - 1 });
        }
        Ok(())
    }

    /// Which process answers.
    pub(super) async fn identity(&mut self) -> Result<Identity> {
        let info = self.ask("show info").await?;
        let line =
            |name: &str| info.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let identity = format!("{} {}", line("Pid:"), line("Start_time_sec:"));
        if line("Pid:").is_empty() {
            return Err(Error::ProxyRefused { command: "show info".to_owned(), said: info });
        }
        Ok(Identity(identity))
    }

    /// Sends what so many answers will come to.
    async fn send(&mut self, text: &[u8], answers: usize) -> Result<()> {
        self.within(async |this| this.stream.write_all(text).await).await?;
        self.owed += answers;
        Ok(())
    }

    /// The answers to what was sent last. Those to what was told before are kept, for who asks for them later.
    async fn latest(&mut self, count: usize) -> Result<Vec<String>> {
        while self.owed > count {
            let answer = self.answer().await?;
            self.unheard.push_back(answer);
        }
        let mut latest = Vec::with_capacity(count);
        for _ in 0..count {
            latest.push(self.answer().await?);
        }
        Ok(latest)
    }

    async fn answer(&mut self) -> Result<String> {
        let answer = self.within(async |this| this.read_answer().await).await?;
        self.owed = self.owed.saturating_sub(1);
        // Somebody else is at it, perhaps only looking: this says nothing about what was asked.
        if answer.ends_with(LOCKED) {
            return Err(Error::CertificatesLocked);
        }
        Ok(answer)
    }

    async fn within<T>(&mut self, talk: impl AsyncFnOnce(&mut Self) -> io::Result<T>) -> Result<T> {
        let address = self.address.clone();
        self.last = Instant::now();
        let talked = tokio::time::timeout(LIMIT, talk(self)).await;
        let talked = talked.unwrap_or_else(|_| Err(late()));
        talked.map_err(|source| Error::Proxy { address, source })
    }

    async fn read_answer(&mut self) -> io::Result<String> {
        let mut searched = 0;
        loop {
            let found = self.read.get(searched..).and_then(|rest| find(rest, PROMPT));
            if let Some(at) = found {
                let rest = self.read.split_off(searched + at + PROMPT.len());
                let answer = std::mem::replace(&mut self.read, rest);
                return Ok(plain(&answer));
            }
            searched = self.read.len().saturating_sub(PROMPT.len());
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it took too long")
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// An answer without its prompts: a payload is asked for line by line.
fn plain(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer.strip_suffix(PROMPT).unwrap_or(answer)).into_owned();
    let mut rest = text.as_str();
    while let Some(shorter) = rest.strip_prefix("+ ") {
        rest = shorter;
    }
    rest.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_ip_addresses() {
        for good in ["/run/haproxy/admin.sock", "unix@/run/x", "127.0.0.1:9999", "[::1]:1"] {
            let address: RuntimeAddress = good.parse().unwrap();
            assert_eq!(address.to_string(), good.trim_start_matches("unix@"));
        }
        for bad in ["", "admin.sock", "localhost:9999", "127.0.0.1"] {
            assert!(bad.parse::<RuntimeAddress>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn prompts_are_no_part_of_an_answer() {
        assert_eq!(
            plain(b"+ + + Transaction created for certificate X!\n\n> "),
            "Transaction created for certificate X!"
        );
        assert_eq!(plain(b"\n> "), "");
        assert_eq!(plain(b"a\nb\n\n> "), "a\nb");
    }
}
