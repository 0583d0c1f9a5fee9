//! Signs of life of a connection: is a request under way, and when did something last move?

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use super::answer::{Body, BoxError};

/// The pulse of a connection, or of one exchange on it.
pub(super) struct Pulse {
    began: Instant,
    last_ms: AtomicU64,
    under_way: AtomicUsize,
    connection: Option<Arc<Self>>,
}

impl Pulse {
    pub(super) fn new() -> Arc<Self> {
        Self::of(None)
    }

    /// The pulse of an exchange, which is one of its connection too.
    pub(super) fn exchange(connection: Arc<Self>) -> Arc<Self> {
        Self::of(Some(connection))
    }

    fn of(connection: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            last_ms: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            connection,
        })
    }

    /// Something moved.
    pub(super) fn beat(&self) {
        let now = self.began.elapsed().as_millis();
        self.last_ms.store(u64::try_from(now).unwrap_or(u64::MAX), Relaxed);
        if let Some(connection) = &self.connection {
            connection.beat();
        }
    }

    /// How long nothing has moved.
    pub(super) fn still_for(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Relaxed)))
    }

    /// Waits until nothing has moved for this long.
    pub(super) async fn still(&self, limit: Duration) {
        loop {
            let still = self.still_for();
            if still >= limit {
                return;
            }
            tokio::time::sleep(limit - still).await;
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.under_way.load(Relaxed) > 0
    }

    /// A request is under way until this is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.under_way.fetch_add(1, Relaxed);
        self.beat();
        Busy(self.clone())
    }
}

pub(super) struct Busy(Arc<Pulse>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
        self.0.beat();
    }
}

/// A body whose frames are signs of life, and which keeps its request under way to the end.
struct Beating<B> {
    body: B,
    pulse: Arc<Pulse>,
    _busy: Option<Busy>,
}

/// The body of a request on its way out.
pub(super) fn beating<B>(body: B, pulse: Arc<Pulse>) -> Body
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    Beating { body, pulse, _busy: None }.boxed_unsync()
}

/// The body of an answer: the request is under way until it is sent.
pub(super) fn keeping_busy(body: Body, busy: Busy) -> Body {
    Beating { body, pulse: busy.0.clone(), _busy: Some(busy) }.boxed_unsync()
}

impl<B> HttpBody for Beating<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.pulse.beat();
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_exchange_that_moves_keeps_its_connection_alive() {
        let connection = Pulse::new();
        let exchange = Pulse::exchange(connection.clone());
        let busy = connection.begin();
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(connection.still_for(), Duration::from_secs(40));
        exchange.beat();
        assert!(connection.is_busy() && connection.still_for().is_zero());
        let began = Instant::now();
        connection.still(Duration::from_secs(5)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        drop(busy);
        assert!(!connection.is_busy() && connection.still_for().is_zero());
    }
}
