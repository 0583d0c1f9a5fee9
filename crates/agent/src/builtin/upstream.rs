//! The server behind the edge: requests go there and answers come back as they flow, nothing is kept.
//!
//! What is framed by HTTP is framed anew on each side, and what concerns one connection stays on it; so the two sides
//! cannot disagree about where a request ends.

mod headers;
mod patience;
mod refusal;
mod tunnel;
mod visitor;

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use holdfast_gateway::client::{self, Client, ClientConfig};

use self::patience::Patience;
use self::refusal::{has_other_coding, refusal};
use self::visitor::{BodyState, VisitorBody};
use super::EdgeLimits;
use super::answer::{Answer, Body, full, text};
use super::asked::Asked;
use super::door::Guest;
use super::pulse::{Pulse, beating};
use super::quiet::Quiet;
use super::tally::Tally;
use crate::error::chain;
use crate::{Error, Result};

/// The client's own limit. What stands still is ended long before, by its pulse.
const LONGEST_UPLOAD: Duration = Duration::from_secs(24 * 3_600);

pub(super) struct Upstream {
    /// Connections are used again: for requests that may be sent twice.
    shared: Client,
    /// A connection for each request: for those that may not, since the upstream could be closing one that was used before.
    single: Client,
    authority: Authority,
    failures: Quiet,
    tally: Arc<Tally>,
}

impl Upstream {
    /// Takes `http://HOST:PORT`.
    pub(super) fn new(uri: &Uri, limits: &EdgeLimits, tally: &Arc<Tally>) -> Result<Self> {
        let bad = || Error::BadUpstream(uri.to_string());
        let authority = uri.authority().ok_or_else(bad)?;
        let rest = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        if uri.scheme() != Some(&Scheme::HTTP) || rest != "/" || authority.as_str().contains('@') {
            return Err(bad());
        }
        let resting = |idle_limit| {
            Client::new(ClientConfig {
                time_limit: LONGEST_UPLOAD,
                user_agent: None,
                idle_limit,
                head_fields: limits.head_fields,
                ..ClientConfig::default()
            })
        };
        Ok(Self {
            shared: resting(limits.upstream_idle)?,
            single: resting(Duration::ZERO)?,
            authority: authority.clone(),
            failures: Quiet::new(),
            tally: tally.clone(),
        })
    }

    /// Forwards a request and gives the upstream's answer, or why there is none.
    pub(super) async fn forward(
        &self,
        mut request: Request<Incoming>,
        asked: &Asked,
        guest: &Guest,
    ) -> Answer {
        if let Some(refusal) = refusal(&request) {
            return refusal;
        }
        let visitor = tunnel::is_wanted(&request).then(|| hyper::upgrade::on(&mut request));
        let (pulse, state) = (Pulse::exchange(guest.pulse.clone()), BodyState::default());
        let Ok(mut outgoing) = self.rewrite(request, asked, guest) else {
            return text(StatusCode::BAD_REQUEST, "the request's target cannot be forwarded");
        };
        if visitor.is_some() {
            tunnel::ask(outgoing.headers_mut());
        }
        let outgoing =
            outgoing.map(|body| beating(VisitorBody::new(body, state.clone()), pulse.clone()));
        let answered = tokio::select! {
            answered = self.send(outgoing) => answered,
            () = pulse.still(guest.limits.upstream) => return self.late(guest, &state),
        };
        match answered {
            Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                tunnel::open(answer, visitor, guest)
                    .unwrap_or_else(|| self.failed(&"it switched protocols unasked"))
            }
            Ok(answer) if has_other_coding(answer.headers()) => {
                self.failed(&"its answer has a transfer coding that nobody asked for")
            }
            Ok(answer) => relay(answer, guest),
            Err(_) if state.is_broken() => broken(guest),
            Err(client::Error::Timeout { .. }) => self.late(guest, &state),
            Err(error) => self.failed(&chain(&error)),
        }
    }

    /// Sends a request; once more, over another connection, if the first ended without an answer and that does no harm.
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, client::Error> {
        let Some(again) = repeatable(&request) else {
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return self.single.send_streaming(request).await;
        };
        match self.shared.send_streaming(request).await {
            Err(error) if error.is_cut_off() => self.single.send_streaming(again).await,
            answered => answered,
        }
    }

    fn rewrite(
        &self,
        request: Request<Incoming>,
        asked: &Asked,
        guest: &Guest,
    ) -> Result<Request<Incoming>, http::Error> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        head.uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()?;
        head.version = Version::HTTP_11;
        headers::strip_request(&mut head.headers);
        headers::introduce(&mut head.headers, asked, guest.peer.ip());
        if body.is_end_stream() {
            headers::declare_no_body(&mut head.headers, &head.method);
        } else if body.size_hint().exact().is_none() {
            // Without a length hyper takes a GET for one without a body.
            head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        // Only what the other side needs: extensions hold this side's connection.
        head.extensions.clear();
        Ok(Request::from_parts(head, body))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Answer {
        self.tally.upstream_failed("failed");
        if let Some(count) = self.failures.may_speak() {
            let upstream = &self.authority;
            tracing::warn!(%upstream, error = %why, count, "the upstream did not answer");
        }
        text(StatusCode::BAD_GATEWAY, "the server behind this edge could not be reached")
    }

    fn late(&self, guest: &Guest, state: &BodyState) -> Answer {
        if state.is_awaited() {
            tracing::debug!(peer = %guest.peer, "a request's body stopped coming");
            return text(StatusCode::REQUEST_TIMEOUT, "the request's body did not come in time");
        }
        self.tally.upstream_failed("late");
        if let Some(count) = self.failures.may_speak() {
            let (upstream, limit) = (&self.authority, guest.limits.upstream);
            tracing::warn!(%upstream, ?limit, count, "the upstream was too slow");
        }
        text(StatusCode::GATEWAY_TIMEOUT, "the server behind this edge did not answer in time")
    }
}

/// A copy to send if the request must be sent again: none if it has a body, or if twice is not the same as once.
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    if !request.method().is_idempotent() || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(full(""));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// The visitor's own mistake: the upstream is not to blame.
fn broken(guest: &Guest) -> Answer {
    tracing::debug!(peer = %guest.peer, "a request's body broke off, or is not framed as HTTP");
    let sentence = "the request's body ended before its time, or is not framed as HTTP wants it";
    text(StatusCode::BAD_REQUEST, sentence)
}

fn relay(answer: Response<Incoming>, guest: &Guest) -> Answer {
    let (mut head, body) = answer.into_parts();
    headers::strip_answer(&mut head.headers);
    // Said once, and as it was counted.
    if let Some(length) = body.size_hint().exact().filter(|_| !body.is_end_stream()) {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    head.version = Version::HTTP_11;
    head.extensions.clear();
    let body: Body = Patience::new(body, guest.limits.stall).boxed_unsync();
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_host_and_a_port() {
        let made = |uri: &str| {
            Upstream::new(&uri.parse().unwrap(), &EdgeLimits::default(), &Arc::default())
        };
        for good in ["http://127.0.0.1:3000", "http://app.internal:80/", "http://[::1]:3000"] {
            assert!(made(good).is_ok(), "{good}");
        }
        for bad in ["https://a:1", "http://a:1/path", "http://a:1?q", "http://u@a:1", "a:1", "/x"] {
            assert!(made(bad).is_err(), "{bad}");
        }
    }
}
