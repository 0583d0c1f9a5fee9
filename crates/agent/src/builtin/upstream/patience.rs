//! The body of the upstream's answer, which breaks off when it stands still for too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::builtin::answer::BoxError;

pub(super) struct Patience {
    body: Incoming,
    limit: Duration,
    alarm: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Patience {
    pub(super) fn new(body: Incoming, limit: Duration) -> Self {
        Self { body, limit, alarm: Box::pin(sleep(limit)), waiting: false }
    }

    fn keep_waiting(&mut self, context: &mut Context<'_>) -> Poll<BoxError> {
        if !self.waiting {
            // Counted from when it is waited for: a slow visitor is not the upstream's fault.
            self.waiting = true;
            let until = Instant::now() + self.limit;
            self.alarm.as_mut().reset(until);
        }
        self.alarm.as_mut().poll(context).map(|()| {
            io::Error::new(io::ErrorKind::TimedOut, "the upstream's answer stood still").into()
        })
    }
}

impl Body for Patience {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                self.waiting = false;
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => self.keep_waiting(context).map(|late| Some(Err(late))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
