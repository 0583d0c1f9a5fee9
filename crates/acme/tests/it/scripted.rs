//! A CA that says exactly what a test wants, over plain HTTP on this machine: answers that no good CA gives.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What is said to a new order, or whatever else is not the directory, a nonce or an account.
#[derive(Clone, Default)]
pub(crate) struct Line {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Scripted {
    address: SocketAddr,
    script: Arc<Script>,
    task: JoinHandle<()>,
}

struct Script {
    base: String,
    line: Mutex<Line>,
    at: Mutex<HashMap<String, Line>>,
    directory: Mutex<Value>,
    /// Does it close each connection under its second request?
    closes: AtomicBool,
    asked: AtomicUsize,
    directory_read: AtomicUsize,
}

impl Scripted {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let base = format!("http://{address}");
        let directory = json!({
            "newNonce": format!("{base}/nonce"),
            "newAccount": format!("{base}/account"),
            "newOrder": format!("{base}/order"),
            "renewalInfo": format!("{base}/renewal"),
        });
        let (line, at, directory) = (Mutex::default(), Mutex::default(), Mutex::new(directory));
        let script = Arc::new(Script {
            base,
            line,
            at,
            directory,
            closes: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
            directory_read: AtomicUsize::new(0),
        });
        let task = tokio::spawn(serve(listener, script.clone()));
        Self { address, script, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn say(&self, line: Line) {
        *self.script.line.lock().unwrap() = line;
    }

    /// What is said at this path, whatever is said elsewhere.
    pub(crate) fn say_at(&self, path: &str, line: Line) {
        self.script.at.lock().unwrap().insert(path.to_owned(), line);
    }

    pub(crate) fn set_directory(&self, key: &str, value: Value) {
        self.script
            .directory
            .lock()
            .unwrap()
            .as_object_mut()
            .unwrap()
            .insert(key.to_owned(), value);
    }

    /// Closes each connection after one answer from now on, without saying so before the next request has come.
    pub(crate) fn close_each(&self) {
        self.script.closes.store(true, Ordering::SeqCst);
    }

    /// How often the directory was asked for.
    pub(crate) fn directory_read(&self) -> usize {
        self.script.directory_read.load(Ordering::SeqCst)
    }

    /// How often the line was said.
    pub(crate) fn asked(&self) -> usize {
        self.script.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, script: Arc<Script>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, script.clone()));
    }
}

async fn converse(mut stream: TcpStream, script: Arc<Script>) {
    while let Some(path) = read(&mut stream).await {
        let line = answer(&script, &path);
        let mut head =
            format!("HTTP/1.1 {} x\r\nContent-Length: {}\r\n", line.status, line.body.len());
        for (name, value) in &line.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let said = [head.as_bytes(), b"\r\n", &line.body].concat();
        if stream.write_all(&said).await.is_err() {
            return;
        }
        if script.closes.load(Ordering::SeqCst) {
            read(&mut stream).await;
            return;
        }
    }
}

/// Reads one request; gives its path.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    stream.read_exact(&mut vec![0; length.unwrap_or(0)]).await.ok()?;
    head.split(' ').nth(1).map(ToOwned::to_owned)
}

fn answer(script: &Script, path: &str) -> Line {
    let nonce = ("Replay-Nonce", "a-nonce".to_owned());
    let location = ("Location", format!("{}/account/1", script.base));
    if path == "/directory" {
        script.directory_read.fetch_add(1, Ordering::SeqCst);
    }
    if let Some(line) = script.at.lock().unwrap().get(path) {
        return line.clone();
    }
    match path {
        "/directory" => {
            let body = script.directory.lock().unwrap().to_string().into_bytes();
            Line { status: 200, headers: vec![], body }
        }
        "/nonce" => Line { status: 200, headers: vec![nonce], body: vec![] },
        "/account" => Line { status: 201, headers: vec![nonce, location], body: b"{}".to_vec() },
        _ => {
            script.asked.fetch_add(1, Ordering::SeqCst);
            script.line.lock().unwrap().clone()
        }
    }
}
