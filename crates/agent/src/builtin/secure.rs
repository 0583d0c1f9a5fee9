//! HTTPS: a handshake, and then requests for that name alone.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::TcpStream;

use super::EdgeLimits;
use super::answer::{Answer, text, without_body};
use super::asked::asked;
use super::connection;
use super::door::{Guest, Host};
use super::head;
use super::hello::{NoHandshake, Received, Reception, is_resumed};
use super::page;
use super::pulse::keeping_busy;
use super::queue::Queue;
use super::served::Served;
use super::source::Source;
use super::tally::Tally;
use super::upstream::Upstream;
use super::well_known;

pub(super) struct Secure {
    reception: Reception,
    source: Arc<dyn Source>,
    upstream: Option<Upstream>,
    handshakes: Queue,
    limits: Arc<EdgeLimits>,
    tally: Arc<Tally>,
}

impl Secure {
    pub(super) fn new(
        reception: Reception,
        source: Arc<dyn Source>,
        upstream: Option<Upstream>,
        limits: Arc<EdgeLimits>,
        tally: Arc<Tally>,
    ) -> Self {
        let handshakes = Queue::new(limits.handshakes);
        Self { reception, source, upstream, handshakes, limits, tally }
    }

    async fn receive(&self, tcp: TcpStream, guest: &Guest) -> Option<Received> {
        let ticket = self.handshakes.enter();
        let handshake = tokio::time::timeout(self.limits.handshake, self.reception.receive(tcp));
        let received = tokio::select! {
            received = handshake => received,
            () = ticket.must_go() => return self.give_up(guest, "too many handshakes are pending"),
            () = guest.stop.cancelled() => return None,
        };
        match received {
            Ok(Ok(received)) => Some(received),
            Ok(Err(refusal)) => self.refused(guest, &refusal),
            Err(_) => self.give_up(guest, "the handshake took too long"),
        }
    }

    fn give_up<T>(&self, guest: &Guest, why: &str) -> Option<T> {
        self.tally.failed();
        tracing::debug!(peer = %guest.peer, "{why}");
        None
    }

    fn refused<T>(&self, guest: &Guest, refusal: &NoHandshake) -> Option<T> {
        match refusal {
            NoHandshake::NoName => self.tally.unknown(None),
            NoHandshake::UnknownName(name) => self.tally.unknown(Some(name)),
            NoHandshake::Lookup(error) => self.tally.turned_away(error),
            NoHandshake::Broken(error) => {
                self.tally.failed();
                tracing::debug!(peer = %guest.peer, %error, "a handshake failed");
            }
        }
        None
    }

    async fn answer(&self, served: &Served, guest: &Guest, request: Request<Incoming>) -> Answer {
        let is_head = *request.method() == Method::HEAD;
        let answer = self.answer_in_full(served, guest, request).await;
        if is_head { without_body(answer) } else { answer }
    }

    async fn answer_in_full(
        &self,
        served: &Served,
        guest: &Guest,
        request: Request<Incoming>,
    ) -> Answer {
        if head::is_too_large(&request, &self.limits) {
            let sentence = "the request's header fields are too many or too long";
            return text(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, sentence);
        }
        let asked = match asked(&request) {
            Ok(asked) => asked,
            Err(bad) => return text(StatusCode::BAD_REQUEST, bad.to_string()),
        };
        if asked.name != served.name {
            let sentence = format!(
                "this connection is for {}, not for {}; open another",
                served.name, asked.name
            );
            return text(StatusCode::MISDIRECTED_REQUEST, sentence);
        }
        let well_known = well_known::answer(self.source.as_ref(), &request).await;
        match (&self.upstream, well_known) {
            // What is not known here may be the upstream's own.
            (Some(upstream), Some(answer)) if answer.status().is_client_error() => {
                upstream.forward(request, &asked, guest).await
            }
            (_, Some(answer)) => answer,
            (Some(upstream), None) => upstream.forward(request, &asked, guest).await,
            (None, None) => page::answer(&request, served),
        }
    }
}

impl Host for Secure {
    async fn welcome(self: Arc<Self>, tcp: TcpStream, guest: Guest) {
        let (stream, served) = match self.receive(tcp, &guest).await {
            Some(Received::Visitor(stream, served)) => (stream, served),
            Some(Received::Challenger) => return self.tally.challenged(),
            None => return,
        };
        self.tally.completed(is_resumed(&stream));
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let visit = Arc::new((self, served, guest.clone()));
        let service = service_fn(move |request| {
            let visit = visit.clone();
            async move {
                let (secure, served, guest) = visit.as_ref();
                let busy = guest.pulse.begin();
                let answer = secure.answer(served, guest, request).await;
                Ok::<_, Infallible>(answer.map(|body| keeping_busy(body, busy)))
            }
        });
        if is_http2 {
            connection::http2(*stream, service, &guest).await;
        } else {
            connection::http1(*stream, service, &guest).await;
        }
    }
}
