//! Answers HTTP-01 challenges, as a replica would.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use holdfast_store::NewChallenge;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

type Known = Arc<Mutex<HashMap<String, String>>>;

/// Clones share the answers; it ends with the last of them.
#[derive(Clone)]
pub(crate) struct Answers {
    address: SocketAddr,
    known: Known,
    _task: Arc<Task>,
}

struct Task(JoinHandle<()>);

impl Answers {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, known) = (listener.local_addr().unwrap(), Known::default());
        let task = tokio::spawn(serve(listener, known.clone()));
        Self { address, known, _task: Arc::new(Task(task)) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Answers this challenge from now on.
    pub(crate) fn put(&self, challenge: &NewChallenge) {
        let (token, answer) = (challenge.token.clone(), challenge.key_authorization.clone());
        self.known.lock().unwrap().insert(token, answer);
    }

    /// Answers this one wrongly from now on.
    pub(crate) fn spoil(&self, challenge: &NewChallenge) {
        self.known.lock().unwrap().insert(challenge.token.clone(), "something else".to_owned());
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(listener: TcpListener, known: Known) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, known.clone()));
    }
}

async fn answer(mut stream: TcpStream, known: Known) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let token = path.strip_prefix("/.well-known/acme-challenge/").unwrap_or_default();
    let found = known.lock().unwrap().get(token).cloned();
    let (status, body) = found.map_or(("404 Not Found", String::new()), |body| ("200 OK", body));
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await.ok();
}
