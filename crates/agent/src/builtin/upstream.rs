//! The server behind the edge: requests go there and answers come back as they flow, nothing is kept.
//!
//! What is framed by HTTP is framed anew on each side, and what concerns one connection stays on it; so the two sides
//! cannot disagree about where a request ends.

mod headers;
mod patience;
mod tunnel;

use std::time::Duration;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use holdfast_gateway::client::{self, Client, ClientConfig};

use self::patience::Patience;
use super::answer::{Answer, Body, text};
use super::asked::Asked;
use super::door::Guest;
use super::pulse::{Pulse, beating};
use super::quiet::Quiet;
use crate::error::chain;
use crate::{Error, Result};

/// The client's own limit. What stands still is ended long before, by its pulse.
const LONGEST_UPLOAD: Duration = Duration::from_secs(24 * 3_600);

pub(super) struct Upstream {
    client: Client,
    authority: Authority,
    failures: Quiet,
}

impl Upstream {
    /// Takes `http://HOST:PORT`.
    pub(super) fn new(uri: &Uri) -> Result<Self> {
        let bad = || Error::BadUpstream(uri.to_string());
        let authority = uri.authority().ok_or_else(bad)?;
        let rest = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        if uri.scheme() != Some(&Scheme::HTTP) || rest != "/" || authority.as_str().contains('@') {
            return Err(bad());
        }
        let config = ClientConfig { time_limit: LONGEST_UPLOAD, ..ClientConfig::default() };
        Ok(Self {
            client: Client::new(config)?,
            authority: authority.clone(),
            failures: Quiet::new(),
        })
    }

    /// Forwards a request and gives the upstream's answer, or why there is none.
    pub(super) async fn forward(
        &self,
        mut request: Request<Incoming>,
        asked: &Asked,
        guest: &Guest,
    ) -> Answer {
        if request.method() == Method::CONNECT {
            return text(StatusCode::METHOD_NOT_ALLOWED, "this edge is no proxy for CONNECT");
        }
        let upgrade = tunnel::wanted(&request);
        let visitor = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let pulse = Pulse::exchange(guest.pulse.clone());
        let Ok(mut outgoing) = self.rewrite(request, asked, guest) else {
            return text(StatusCode::BAD_REQUEST, "the request's target cannot be forwarded");
        };
        if let Some(protocol) = upgrade {
            tunnel::ask(outgoing.headers_mut(), protocol);
        }
        let outgoing = outgoing.map(|body| beating(body, pulse.clone()));
        let answered = tokio::select! {
            answered = self.client.send_streaming(outgoing) => answered,
            () = pulse.still(guest.limits.upstream) => return self.late(guest),
        };
        match answered {
            Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                tunnel::open(answer, visitor, guest)
                    .unwrap_or_else(|| self.failed(&"it switched protocols unasked"))
            }
            Ok(answer) => relay(answer, guest),
            Err(client::Error::Timeout { .. }) => self.late(guest),
            Err(error) => self.failed(&chain(&error)),
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
        // Without a length hyper takes a GET for one without a body.
        if !body.is_end_stream() && body.size_hint().exact().is_none() {
            head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        // Only what the other side needs: extensions hold this side's connection.
        head.extensions.clear();
        Ok(Request::from_parts(head, body))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Answer {
        if let Some(count) = self.failures.may_speak() {
            let upstream = &self.authority;
            tracing::warn!(%upstream, error = %why, count, "the upstream did not answer");
        }
        text(StatusCode::BAD_GATEWAY, "the server behind this edge could not be reached")
    }

    fn late(&self, guest: &Guest) -> Answer {
        if let Some(count) = self.failures.may_speak() {
            let (upstream, limit) = (&self.authority, guest.limits.upstream);
            tracing::warn!(%upstream, ?limit, count, "the upstream was too slow");
        }
        text(StatusCode::GATEWAY_TIMEOUT, "the server behind this edge did not answer in time")
    }
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
        for good in ["http://127.0.0.1:3000", "http://app.internal:80/", "http://[::1]:3000"] {
            assert!(Upstream::new(&good.parse().unwrap()).is_ok(), "{good}");
        }
        for bad in ["https://a:1", "http://a:1/path", "http://a:1?q", "http://u@a:1", "a:1", "/x"] {
            assert!(Upstream::new(&bad.parse().unwrap()).is_err(), "{bad}");
        }
    }
}
