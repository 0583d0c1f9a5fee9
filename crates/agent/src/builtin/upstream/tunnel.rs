//! A connection that both sides agreed to speak another protocol on (WebSocket): bytes, both ways, to the end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use http::{Method, Request, Response, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf, copy_bidirectional};

use super::headers;
use crate::builtin::answer::{Answer, full};
use crate::builtin::door::Guest;
use crate::builtin::pulse::Pulse;

/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// The one protocol that is switched to. Another, h2c above all, would carry requests past the edge.
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Does a request ask for a WebSocket? One with a body is forwarded without asking: what follows would be ambiguous.
pub(super) fn is_wanted(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let names_it = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|name| name.trim().eq_ignore_ascii_case("upgrade"));
    let plain = request.version() == Version::HTTP_11
        && *request.method() == Method::GET
        && request.body().is_end_stream();
    names_it && plain && names_websocket(headers)
}

fn names_websocket(headers: &HeaderMap) -> bool {
    let mut named = headers.get_all(UPGRADE).iter();
    let first = named
        .next()
        .is_some_and(|named| named.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()));
    first && named.next().is_none()
}

/// Asks the upstream for the same.
pub(super) fn ask(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, WEBSOCKET);
}

/// Joins the two sides; none when the visitor did not ask for it.
pub(super) fn open(
    mut answer: Response<Incoming>,
    visitor: Option<OnUpgrade>,
    guest: &Guest,
) -> Option<Answer> {
    let visitor = visitor?;
    if !names_websocket(answer.headers()) {
        return None;
    }
    let upstream = hyper::upgrade::on(&mut answer);
    let guest = guest.clone();
    tokio::spawn(async move {
        if let Err(error) = join(visitor, upstream, &guest).await {
            tracing::debug!(peer = %guest.peer, %error, "a tunnel ended badly");
        }
    });
    let (mut head, _) = answer.into_parts();
    headers::strip_answer(&mut head.headers);
    ask(&mut head.headers);
    head.extensions.clear();
    Some(Response::from_parts(head, full("")))
}

async fn join(visitor: OnUpgrade, upstream: OnUpgrade, guest: &Guest) -> Result<(), TunnelError> {
    let limit = guest.limits.handshake;
    let both = async { tokio::try_join!(visitor, upstream) };
    let (visitor, upstream) =
        tokio::time::timeout(limit, both).await.map_err(|_| TunnelError::Late)??;
    let pulse = Pulse::new();
    let mut visitor = Moving { io: TokioIo::new(visitor), pulse: pulse.clone() };
    let mut upstream = TokioIo::new(upstream);
    tokio::select! {
        copied = copy_bidirectional(&mut visitor, &mut upstream) => return Ok(copied.map(drop)?),
        () = pulse.still(guest.limits.tunnel) => {}
        () = guest.stop.cancelled() => {}
    }
    // Both are told; neither is waited for.
    let farewell = async { tokio::join!(visitor.shutdown(), upstream.shutdown()) };
    tokio::time::timeout(FAREWELL, farewell).await.ok();
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum TunnelError {
    #[error("one side did not switch in time")]
    Late,
    #[error(transparent)]
    Switch(#[from] hyper::Error),
    #[error(transparent)]
    Copy(#[from] io::Error),
}

/// The visitor's side, on which everything that passes is seen.
struct Moving {
    io: TokioIo<Upgraded>,
    pulse: Arc<Pulse>,
}

impl AsyncRead for Moving {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.io).poll_read(context, buffer));
        self.pulse.beat();
        Poll::Ready(read)
    }
}

impl AsyncWrite for Moving {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(context, buffer));
        self.pulse.beat();
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
