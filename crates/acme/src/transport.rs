//! The one way out to the CA: every request passes here, with its crash point, its time limit, its measure, its
//! nonce kept and its Retry-After read. What the requests mean is not known here.

mod adapter;
mod exchange;
mod nonces;
mod retry_after;
mod secure;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use holdfast_gateway::client::{self, Client, ClientConfig};
use holdfast_gateway::point::{self, Point};
use http::header::{CONTENT_TYPE, LINK, LOCATION};
use http::{HeaderMap, Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

pub(crate) use self::adapter::told;
pub(crate) use self::exchange::during;
use self::nonces::Nonces;
pub use self::secure::BadUrl;
use self::secure::Origins;
pub(crate) use self::secure::check_directory;
use crate::problem::Problem;
use crate::{CaConfig, Error, Refusal};

const REPLAY_NONCE: &str = "replay-nonce";

/// How often a read is sent at once when the connection breaks off under it: pools hold connections that the CA has closed.
const READS: u32 = 3;

/// The way to one CA; clones share connections and nonces.
#[derive(Clone)]
pub(crate) struct Transport(Arc<Inner>);

struct Inner {
    client: Client,
    nonces: Nonces,
    origins: RwLock<Arc<Origins>>,
}

/// A good answer.
pub(crate) struct Answer {
    at: Point,
    origins: Arc<Origins>,
    status: u16,
    headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) retry_after: Option<Duration>,
}

impl Transport {
    pub(crate) fn new(config: &CaConfig) -> Result<Self, Error> {
        let client = Client::new(ClientConfig {
            extra_roots_pem: config.extra_roots_pem.clone().map(String::into_bytes),
            time_limit: config.time_limit,
            ..ClientConfig::default()
        })
        .map_err(Error::Client)?;
        let origins = RwLock::new(Arc::new(Origins::of(&config.directory)));
        Ok(Self(Arc::new(Inner { client, nonces: Nonces::default(), origins })))
    }

    /// May a URL that the CA gave for this be stored and asked?
    pub(crate) fn check_url(&self, at: Point, url: &str) -> Result<(), Error> {
        refused_unless(&self.origins(), at, url)
    }

    /// The directory was read: from now on the CA is asked where it leads.
    pub(crate) fn lead_to<'a>(&self, urls: impl Iterator<Item = &'a String>) -> Result<(), Error> {
        let origins = self.origins().naming(urls).map_err(|(url, why)| {
            malformed(Point::ACME_DIRECTORY, &format!("`{}` {why}", shown(&url)))
        })?;
        *self.0.origins.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(origins);
        Ok(())
    }

    fn origins(&self) -> Arc<Origins> {
        self.0.origins.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn get(&self, at: Point, url: &str) -> Result<Answer, Error> {
        self.send(at, request(at, Request::get(url), Bytes::new())?).await
    }

    /// Posts what is signed already; the nonce in it is spent, whatever comes of it.
    pub(crate) async fn post(&self, at: Point, url: &str, jws: Vec<u8>) -> Result<Answer, Error> {
        let builder = Request::post(url).header(CONTENT_TYPE, "application/jose+json");
        self.send(at, request(at, builder, jws.into())?).await
    }

    /// A nonce for one signature: one that came with an earlier answer, or a fresh one.
    pub(crate) async fn nonce(&self, url: &str) -> Result<String, Error> {
        if let Some(nonce) = self.0.nonces.take() {
            return Ok(nonce);
        }
        let at = Point::ACME_NONCE;
        let answer = self.send(at, request(at, Request::head(url), Bytes::new())?).await?;
        let nonce = answer.headers.get(REPLAY_NONCE).and_then(|nonce| nonce.to_str().ok());
        nonce.map(ToOwned::to_owned).ok_or_else(|| answer.not_acme("it has no Replay-Nonce"))
    }

    async fn send(&self, at: Point, request: Request<Bytes>) -> Result<Answer, Error> {
        self.check_url(at, &request.uri().to_string())?;
        let mut sent = 1;
        loop {
            match self.send_once(at, request.clone()).await {
                Err(Error::Unreachable { source, .. })
                    if sent < READS && is_read(at) && broke_off(&source) =>
                {
                    sent += 1;
                }
                answered => return answered,
            }
        }
    }

    async fn send_once(&self, at: Point, request: Request<Bytes>) -> Result<Answer, Error> {
        let begun = Instant::now();
        let answered = point::around(at, self.0.client.send(request)).await;
        let status = answered.as_ref().map(Response::status).ok();
        measure(at, status, begun.elapsed());
        let source = match answered {
            Ok(answer) => return self.read(at, answer),
            Err(source) => Box::new(source),
        };
        Err(Error::Unreachable { at, source })
    }

    fn read(&self, at: Point, answer: Response<Bytes>) -> Result<Answer, Error> {
        let (mut head, body) = answer.into_parts();
        let retry_after = retry_after::read(&head.headers);
        exchange::note(retry_after);
        let status = head.status.as_u16();
        if let Some(problem) = no_acme_answer(head.status, &head.headers, &body) {
            return Err(Error::NotAcme { at, status, problem });
        }
        let refusal = (!head.status.is_success()).then(|| {
            let problem = Problem::parse(&body).unwrap_or_else(|| unsaid(head.status));
            Refusal { at, status, problem, retry_after }
        });
        // The whole pool may be of a CA that has been restarted since: what came with the refusal is good.
        if refusal.as_ref().is_some_and(Refusal::is_bad_nonce) {
            self.0.nonces.clear();
        }
        // Taken off, so that nobody uses it a second time; one that was asked for is its asker's.
        if at != Point::ACME_NONCE
            && let Some(nonce) = head.headers.remove(REPLAY_NONCE)
        {
            self.0.nonces.keep(&nonce);
        }
        match refusal {
            Some(refusal) => Err(Error::Refused(Box::new(refusal))),
            None => {
                let origins = self.origins();
                Ok(Answer { at, origins, status, headers: head.headers, body, retry_after })
            }
        }
    }
}

impl Answer {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| self.not_acme(&error.to_string()))
    }

    /// For what was done without an answer worth reading: it may be empty.
    pub(crate) fn done(self) -> Result<(), Error> {
        if self.body.is_empty() { Ok(()) } else { self.json::<Value>().map(drop) }
    }

    fn not_acme(&self, problem: &str) -> Error {
        Error::NotAcme { at: self.at, status: self.status, problem: problem.to_owned() }
    }

    /// The URLs that stand in this relation to what was asked for, those that can be asked.
    pub(crate) fn links(&self, relation: &str) -> Vec<String> {
        let headers = self.headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
        let targets = headers.flat_map(|header| targets(header, relation));
        targets.filter(|url| self.origins.check(url).is_ok()).map(ToOwned::to_owned).collect()
    }

    /// Where the thing that was made is: a URL that can be stored and asked.
    pub(crate) fn location(&self) -> Result<String, Error> {
        let location = self.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let url = location.ok_or_else(|| self.not_acme("it has no Location"))?;
        refused_unless(&self.origins, self.at, url)?;
        Ok(url.to_owned())
    }
}

/// The targets of a `Link` header (RFC 8288) that have this relation, as far as they are written as CAs write them.
fn targets<'a>(header: &'a str, relation: &'a str) -> impl Iterator<Item = &'a str> {
    header.split('<').skip(1).filter_map(move |link| {
        let (target, parameters) = link.split_once('>')?;
        let is_rel = |parameter: &str| {
            let (name, value) = parameter.split_once('=')?;
            let named = name.trim().eq_ignore_ascii_case("rel");
            let value = value.trim().trim_end_matches(',').trim().trim_matches('"');
            (named && value.split(' ').any(|one| one.eq_ignore_ascii_case(relation))).then_some(())
        };
        parameters.split(';').find_map(is_rel).map(|()| target)
    })
}

fn refused_unless(origins: &Origins, at: Point, url: &str) -> Result<(), Error> {
    origins.check(url).map_err(|why| Error::BadUrl { at, url: shown(url), why })
}

/// What a CA sent in place of a URL, for people.
fn shown(url: &str) -> String {
    url.chars().take(200).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

pub(crate) fn malformed(at: Point, problem: &str) -> Error {
    Error::Malformed { at, problem: problem.to_owned() }
}

/// For a good status with something under it that no ACME server sends.
pub(crate) fn not_acme(at: Point, problem: &str) -> Error {
    Error::NotAcme { at, status: StatusCode::OK.as_u16(), problem: problem.to_owned() }
}

fn request(
    at: Point,
    builder: http::request::Builder,
    body: Bytes,
) -> Result<Request<Bytes>, Error> {
    builder.body(body).map_err(|error| malformed(at, &format!("its URL is none: {error}")))
}

/// May it be sent twice, because it changes nothing, or nothing more? A nonce that was spent by the first is refused alone, and another is used.
fn is_read(at: Point) -> bool {
    let reads = [
        Point::ACME_DIRECTORY,
        Point::ACME_NONCE,
        Point::ACME_ORDER,
        Point::ACME_AUTHORIZATION,
        Point::ACME_CHALLENGE,
        Point::ACME_CERTIFICATE,
        Point::ACME_RENEWAL_INFO,
    ];
    reads.contains(&at)
}

const fn broke_off(error: &client::Error) -> bool {
    matches!(error, client::Error::Exchange { .. } | client::Error::Body { .. })
}

/// What shows that no ACME server answered: a page, or a refusal without the document that every ACME server sends with one. Servers
/// that are overloaded, or say that they failed, are known by their status.
fn no_acme_answer(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Option<String> {
    let is_page = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/html"));
    let said_by_status = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let reason = status.canonical_reason().unwrap_or("an unknown status");
    let number = status.as_u16();
    match status.is_success() {
        true if is_page => Some(format!("it is a web page [{number} {reason}]")),
        false if !said_by_status && Problem::parse(body).is_none_or(|it| it.is_generic()) => {
            let what = if is_page { "a web page" } else { "no problem of ACME's" };
            Some(format!("it said {number} {reason}, with {what}"))
        }
        _ => None,
    }
}

/// For an answer that says no and not why.
fn unsaid(status: StatusCode) -> Problem {
    let reason = status.canonical_reason().unwrap_or("an unknown status");
    Problem { detail: format!("{reason}, without a problem document"), ..Problem::default() }
}

/// Every request is counted and timed here and nowhere else.
fn measure(at: Point, status: Option<StatusCode>, took: Duration) {
    let result = status.map_or("none", |status| match status.as_u16() {
        200..300 => "ok",
        429 => "rate-limited",
        500.. => "server-error",
        _ => "refused",
    });
    let request = at.name().trim_start_matches("acme.");
    metrics::counter!("holdfast_acme_requests_total", "request" => request, "result" => result)
        .increment(1);
    metrics::histogram!("holdfast_acme_request_seconds", "request" => request).record(took);
    tracing::debug!(request, status = status.map(|status| status.as_u16()), ?took, "asked the CA");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_as_cas_write_them() {
        let found = |header| targets(header, "alternate").collect::<Vec<_>>();
        assert_eq!(found("<https://ca.test/c/1>;rel=\"alternate\""), ["https://ca.test/c/1"]);
        assert_eq!(found("<https://ca.test/1>; title=x; REL=alternate"), ["https://ca.test/1"]);
        assert_eq!(
            found("<a>;rel=\"index\", <b>;rel=\"alternate\", <c>; rel=\"up alternate\""),
            ["b", "c"]
        );
        for header in ["", "<a", "<a>", "<a>;rel", "a;rel=\"alternate\"", "<a>;rel=\"alternates\""]
        {
            assert!(found(header).is_empty(), "{header}");
        }
    }
}
