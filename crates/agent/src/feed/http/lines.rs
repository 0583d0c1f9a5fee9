//! The lines of an answer as they come in.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::{Error, Result};

/// A longer line is no entry of a listing.
const LONGEST: usize = 64 * 1024;

pub(super) struct Lines {
    body: Incoming,
    read: BytesMut,
    ended: bool,
}

impl Lines {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, read: BytesMut::new(), ended: false }
    }

    /// The next line, without its end; none after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut searched = 0;
        loop {
            let found = self.read.iter().skip(searched).position(|byte| *byte == b'\n');
            if let Some(at) = found {
                let line = self.read.split_to(searched + at).freeze();
                self.read.advance(1);
                return Ok(Some(line));
            }
            searched = self.read.len();
            if searched > LONGEST {
                return Err(Error::Nonsense("a line of the listing has no end".to_owned()));
            }
            if self.ended {
                let rest = self.read.split().freeze();
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
            self.more().await?;
        }
    }

    /// What is left, up to a limit.
    pub(super) async fn rest(&mut self) -> Result<Bytes> {
        while !self.ended && self.read.len() < LONGEST {
            self.more().await?;
        }
        Ok(self.read.split().freeze())
    }

    async fn more(&mut self) -> Result<()> {
        match self.body.frame().await {
            None => self.ended = true,
            Some(Err(error)) => return Err(Error::Unavailable { source: error.into() }),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.read.extend_from_slice(data);
                }
            }
        }
        Ok(())
    }
}
