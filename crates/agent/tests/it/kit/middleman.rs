//! Stands between the agent and HAProxy, and does not leave what the agent says as it is.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use holdfast_testkit::Haproxy;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// What it does, line by line.
pub(crate) enum Mischief {
    /// Opens a transaction for somebody else's file, with this certificate, just before ours.
    Intrude { file: PathBuf, pem: String },
    /// The same, between a commit of ours and what is set next.
    IntrudeBetween { file: PathBuf, pem: String },
    /// Sets this certificate in our transaction, just before we commit it.
    Cross { file: PathBuf, pem: String },
    /// Gives HAProxy another certificate than ours for this file.
    Swap { file: String, pem: String },
    /// Spoils lines that are longer than usual, as if HAProxy could not read them.
    SpoilWide,
}

pub(crate) struct Middleman {
    pub(crate) address: SocketAddr,
    /// Is it to intrude, once?
    pub(crate) armed: Arc<AtomicBool>,
}

struct Between {
    mischief: Arc<Mischief>,
    armed: Arc<AtomicBool>,
    socket: PathBuf,
    has_committed: bool,
    /// Is a payload being said that was said otherwise?
    is_swapping: bool,
}

impl Middleman {
    pub(crate) async fn start(haproxy: &Haproxy, mischief: Mischief) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let armed = Arc::new(AtomicBool::new(false));
        let (shared, socket) = (armed.clone(), haproxy.socket());
        let mischief = Arc::new(mischief);
        tokio::spawn(async move {
            while let Ok((agent, _)) = listener.accept().await {
                let (mischief, armed, socket) = (mischief.clone(), shared.clone(), socket.clone());
                let (has_committed, is_swapping) = (false, false);
                let between = Between { mischief, armed, socket, has_committed, is_swapping };
                tokio::spawn(between.talk(agent));
            }
        });
        Self { address, armed }
    }
}

impl Between {
    async fn talk(mut self, agent: TcpStream) {
        let haproxy = UnixStream::connect(&self.socket).await.unwrap();
        let ((from, mut to), (mut answers, mut commands)) =
            (agent.into_split(), haproxy.into_split());
        tokio::spawn(async move { tokio::io::copy(&mut answers, &mut to).await });
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let line = self.changed(line).await;
            if commands.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    async fn changed(&mut self, line: String) -> String {
        let sets = line.starts_with("set ssl cert ");
        match &*self.mischief {
            Mischief::Intrude { file, pem } if sets && self.armed.swap(false, SeqCst) => {
                intrude(&self.socket, file, pem).await;
            }
            Mischief::IntrudeBetween { file, pem } => {
                if sets && self.has_committed && self.armed.swap(false, SeqCst) {
                    intrude(&self.socket, file, pem).await;
                }
                self.has_committed |= line.starts_with("commit ");
            }
            Mischief::Cross { file, pem }
                if line.starts_with("commit ") && self.armed.swap(false, SeqCst) =>
            {
                let set = format!("set ssl cert {} <<\n{pem}", file.display());
                let said = ask(&self.socket, &set).await;
                assert!(said.contains("Transaction updated"), "{said}");
            }
            Mischief::Swap { file, pem } => {
                if sets && line.contains(file) {
                    self.is_swapping = true;
                    return format!("{line}\n{pem}");
                }
                if self.is_swapping && !line.is_empty() {
                    return String::new();
                }
                self.is_swapping = false;
            }
            Mischief::SpoilWide if line.len() > 76 && !line.contains("ssl ") => {
                return "spoilt\n".to_owned();
            }
            _ => {}
        }
        line + "\n"
    }
}

/// Opens a transaction as soon as none is open.
async fn intrude(socket: &Path, file: &Path, pem: &str) {
    let file = file.display();
    while !ask(socket, &format!("abort ssl cert {file}")).await.contains("No ongoing") {
        tokio::task::yield_now().await;
    }
    let said = ask(socket, &format!("set ssl cert {file} <<\n{pem}")).await;
    assert!(said.contains("Transaction created"), "{said}");
}

async fn ask(socket: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(format!("{command}\n").as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    said
}
