//! A server behind the edge that tells what it was sent, streams, switches protocols, and misbehaves on demand.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) const PIECE: usize = 64 * 1024;

#[derive(Default)]
pub(crate) struct Behind {
    /// Pieces of a large answer handed to HTTP.
    pub(crate) produced: AtomicU64,
    /// Bytes of a large request taken from HTTP.
    pub(crate) taken: AtomicU64,
}

impl Behind {
    /// Serves until the test's runtime ends.
    pub(crate) async fn start() -> (Arc<Self>, SocketAddr) {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, behind) = (tcp.local_addr().unwrap(), Arc::new(Self::default()));
        let serving = behind.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                let behind = serving.clone();
                let service = service_fn(move |request| {
                    let behind = behind.clone();
                    async move { Ok::<_, Infallible>(behind.answer(request).await) }
                });
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { connection.with_upgrades().await });
            }
        });
        (behind, address)
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        match request.uri().path() {
            "/large" => Response::new(self.large(query(&request))),
            "/upload" => self.upload(request).await,
            "/ignore-upload" => std::future::pending().await,
            "/never" => std::future::pending().await,
            "/stall" => {
                let first = stream::iter([Ok(Frame::data(Bytes::from_static(b"some")))]);
                let rest = stream::pending::<Result<Frame<Bytes>, Infallible>>();
                let both = futures_util::StreamExt::chain(first, rest);
                Response::new(StreamBody::new(both).boxed_unsync())
            }
            "/break" => {
                let short = stream::iter([Ok(Frame::data(Bytes::from_static(b"short")))]);
                // It ends when what there is has gone out: HTTP flushes while there is nothing more to take.
                let end = stream::once(async {
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                });
                let end = futures_util::StreamExt::filter_map(end, |()| async { None });
                let short = futures_util::StreamExt::chain(short, end);
                let mut answer = Response::new(StreamBody::new(short).boxed_unsync());
                answer.headers_mut().insert("content-length", HeaderValue::from_static("99"));
                answer
            }
            "/switch" => switch_unasked(),
            "/ws" => websocket(request),
            _ => tell(request).await,
        }
    }

    fn large(self: Arc<Self>, pieces: u64) -> Body {
        let piece = Bytes::from(vec![b'x'; PIECE]);
        let pieces = stream::iter(0..pieces);
        let frames = futures_util::StreamExt::map(pieces, move |_| {
            self.produced.fetch_add(1, Relaxed);
            Ok(Frame::data(piece.clone()))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn upload(&self, request: Request<Incoming>) -> Response<Body> {
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return status(StatusCode::BAD_REQUEST) };
            let taken = frame.data_ref().map_or(0, |data| data.len() as u64);
            self.taken.fetch_add(taken, Relaxed);
        }
        Response::new(full(self.taken.load(Relaxed).to_string()))
    }
}

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

fn status(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(full(""));
    *answer.status_mut() = status;
    answer
}

fn query(request: &Request<Incoming>) -> u64 {
    request.uri().query().unwrap().parse().unwrap()
}

/// The request as it arrived, line by line.
async fn tell(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let mut told = format!("{} {} {:?}\n", head.method, head.uri, head.version);
    for (name, value) in &head.headers {
        told.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    let body = body.collect().await.unwrap().to_bytes();
    told.push_str(&format!("\n{}", String::from_utf8_lossy(&body)));
    let mut answer = Response::new(full(told));
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("x-private"));
    headers.insert("x-private", HeaderValue::from_static("1"));
    headers.insert("x-public", HeaderValue::from_static("1"));
    answer
}

fn switch_unasked() -> Response<Body> {
    let mut answer = status(StatusCode::SWITCHING_PROTOCOLS);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("echo"));
    answer
}

/// A WebSocket (RFC 6455) that gives every short text back, in upper case.
fn websocket(mut request: Request<Incoming>) -> Response<Body> {
    let key = request.headers()["sec-websocket-key"].to_str().unwrap();
    let accept = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, accept.as_bytes());
    let accept = base64::engine::general_purpose::STANDARD.encode(digest);
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut io = TokioIo::new(upgrade.await.unwrap());
        while let Ok(0x81) = io.read_u8().await {
            let length = usize::from(io.read_u8().await.unwrap() & 0x7f);
            let mut mask = [0; 4];
            io.read_exact(&mut mask).await.unwrap();
            let mut text = vec![0; length];
            io.read_exact(&mut text).await.unwrap();
            for (at, byte) in text.iter_mut().enumerate() {
                *byte = (*byte ^ mask[at % 4]).to_ascii_uppercase();
            }
            io.write_all(&[0x81, u8::try_from(length).unwrap()]).await.unwrap();
            io.write_all(&text).await.unwrap();
            io.flush().await.unwrap();
        }
    });
    let mut answer = status(StatusCode::SWITCHING_PROTOCOLS);
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert("sec-websocket-accept", HeaderValue::try_from(accept).unwrap());
    answer
}

/// Longer than anything should take.
pub(crate) const AGES: Duration = Duration::from_secs(3_600);
