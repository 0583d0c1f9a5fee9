//! An upstream that answers with given bytes, and only the first request of each connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

pub(crate) struct Raw {
    answer: &'static str,
    /// Requests of one connection that are answered.
    per_connection: usize,
    /// Does a connection end when one more request has arrived, or right after the last answer?
    lingers: bool,
    requests: Mutex<Vec<String>>,
    pub(crate) connections: AtomicUsize,
}

impl Raw {
    /// Serves until the test's runtime ends; a connection ends when one request too many has arrived.
    pub(crate) async fn start(
        answer: &'static str,
        per_connection: usize,
    ) -> (Arc<Self>, SocketAddr) {
        Self::with(answer, per_connection, true).await
    }

    /// Serves until the test's runtime ends; a connection ends after its first answer, which does not say so.
    pub(crate) async fn closing(answer: &'static str) -> (Arc<Self>, SocketAddr) {
        Self::with(answer, 1, false).await
    }

    async fn with(
        answer: &'static str,
        per_connection: usize,
        lingers: bool,
    ) -> (Arc<Self>, SocketAddr) {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let (requests, connections) = (Mutex::default(), AtomicUsize::new(0));
        let raw = Arc::new(Self { answer, per_connection, lingers, requests, connections });
        let serving = raw.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                serving.connections.fetch_add(1, Relaxed);
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        (raw, address)
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        for _ in 0..self.per_connection {
            let Some(request) = read(&mut stream).await else { return };
            let answer = match request.starts_with("HEAD ") {
                true => self.answer.split_inclusive("\r\n\r\n").next().unwrap(),
                false => self.answer,
            };
            self.requests.lock().unwrap().push(request);
            stream.write_all(answer.as_bytes()).await.ok();
        }
        if self.lingers
            && let Some(request) = read(&mut stream).await
        {
            self.requests.lock().unwrap().push(format!("unanswered {request}"));
        }
    }

    /// Every request that arrived, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// One request; none at the end of the connection.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(request).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}
