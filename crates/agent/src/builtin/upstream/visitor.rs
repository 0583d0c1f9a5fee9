//! The body of a request on its way from the visitor to the upstream, and which of the two is waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use crate::builtin::answer::BoxError;

const GIVEN: u8 = 0;
const AWAITED: u8 = 1;
const BROKEN: u8 = 2;

/// How far the body of a request was sent, shared with the task that waits for the answer.
#[derive(Clone, Default)]
pub(super) struct BodyState(Arc<AtomicU8>);

impl BodyState {
    /// Does the upstream wait for more of the body?
    pub(super) fn is_awaited(&self) -> bool {
        self.0.load(Relaxed) == AWAITED
    }

    /// Did the body end before its time, or was it not framed as HTTP wants?
    pub(super) fn is_broken(&self) -> bool {
        self.0.load(Relaxed) == BROKEN
    }
}

pub(super) struct VisitorBody {
    body: Incoming,
    state: BodyState,
}

impl VisitorBody {
    pub(super) fn new(body: Incoming, state: BodyState) -> Self {
        Self { body, state }
    }
}

impl HttpBody for VisitorBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let seen = match &polled {
            Poll::Pending => AWAITED,
            Poll::Ready(Some(Err(_))) => BROKEN,
            Poll::Ready(_) => GIVEN,
        };
        self.state.0.store(seen, Relaxed);
        polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
