//! Drives one HTTP connection to its end, and ends it itself when it rests, stands still, or the edge stops.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1 as h1, http2 as h2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::Body;
use super::door::Guest;
use super::head;

/// How long somebody who rests is given to take leave.
const LEAVE: Duration = Duration::from_secs(1);

/// How long one may rest when it is crowded.
const REST_IN_A_CROWD: Duration = Duration::from_secs(1);

/// Streams of one HTTP/2 connection at once.
const STREAMS: u32 = 128;

/// What is kept of an answer that a visitor does not take, per stream.
const SEND_BUFFER: usize = 64 * 1024;

pub(super) async fn http1<S>(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: S,
    guest: &Guest,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send,
{
    let limits = &guest.limits;
    let connection = h1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_headers(limits.head_fields)
        .max_header_size(limits.head_bytes)
        // No smaller is taken by hyper.
        .max_buf_size(limits.head_bytes.max(64 * 1024))
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    drive(connection, guest).await;
}

pub(super) async fn http2<S>(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: S,
    guest: &Guest,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let limits = &guest.limits;
    let connection = h2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.idle)
        .keep_alive_timeout(limits.handshake)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(head::list_size(limits)).unwrap_or(u32::MAX))
        .max_send_buf_size(SEND_BUFFER)
        .serve_connection(TokioIo::new(io), service);
    drive(connection, guest).await;
}

/// A connection that can be asked to end after what is under way.
trait Connection: Future<Output = hyper::Result<()>> {
    fn ask_to_end(self: Pin<&mut Self>);
}

impl<I, S> Connection for h1::UpgradeableConnection<I, S>
where
    I: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    fn ask_to_end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S> Connection for h2::Connection<TokioIo<I>, S, TokioExecutor>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    fn ask_to_end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

async fn drive(connection: impl Connection, guest: &Guest) {
    let mut connection = pin!(connection);
    let grace = tokio::select! {
        ended = connection.as_mut() => return note(ended, guest),
        grace = must_end(guest) => grace,
    };
    connection.as_mut().ask_to_end();
    // Beyond that it is cut off.
    if let Ok(ended) = tokio::time::timeout(grace, connection).await {
        note(ended, guest);
    }
}

fn note(ended: hyper::Result<()>, guest: &Guest) {
    if let Err(error) = ended {
        tracing::debug!(peer = %guest.peer, error = crate::error::chain(&error), "a connection ended badly");
    }
}

/// Waits for a reason to end the connection; gives how long it may still take.
async fn must_end(guest: &Guest) -> Duration {
    let mut crowded = guest.seat.crowded();
    loop {
        let in_a_crowd = *crowded.borrow_and_update();
        let rest = if in_a_crowd { REST_IN_A_CROWD } else { guest.limits.idle };
        let still = guest.pulse.still_for();
        let (busy, limits) = (guest.pulse.is_busy(), &guest.limits);
        if busy && still >= limits.stall {
            return Duration::ZERO;
        }
        if !busy && still >= rest {
            return LEAVE;
        }
        let look_again = Instant::now() + if still < rest { rest - still } else { rest };
        tokio::select! {
            () = guest.stop.cancelled() => return limits.drain,
            () = tokio::time::sleep_until(look_again) => {}
            () = turned(&mut crowded) => {}
        }
    }
}

async fn turned(crowded: &mut watch::Receiver<bool>) {
    if crowded.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
