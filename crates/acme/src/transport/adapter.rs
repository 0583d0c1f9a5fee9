//! instant-acme's view of the transport.
//!
//! instant-acme asks for a nonce before each signature and retries a badNonce itself: it gets its nonces from the
//! pool, and is shown a badNonce as it came. Every other refusal reaches our callers whole, status and headers
//! included, through its error type.

use std::pin::Pin;

use bytes::Bytes;
use holdfast_gateway::point::Point;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};

use super::{Answer, REPLAY_NONCE, Transport, exchange, malformed, not_acme};
use crate::{Error, Refusal};

type Answering = Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>>;

impl HttpClient for Transport {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Answering {
        let (transport, at) = (self.clone(), exchange::label().unwrap_or(Point::ACME_DIRECTORY));
        Box::pin(async move {
            let answered = match *request.method() {
                Method::HEAD => transport.hand_out_nonce(&request.uri().to_string()).await,
                _ => transport.pass_on(at, request).await,
            };
            answered.map_err(|error| instant_acme::Error::Other(Box::new(error)))
        })
    }
}

impl Transport {
    async fn hand_out_nonce(&self, url: &str) -> Result<BytesResponse, Error> {
        let nonce = self.nonce(url).await?;
        let answer = Response::builder().header(REPLAY_NONCE, nonce).body(Full::<Bytes>::default());
        answer.map(Into::into).map_err(|error| malformed(Point::ACME_NONCE, &error.to_string()))
    }

    async fn pass_on(
        &self,
        at: Point,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Result<BytesResponse, Error> {
        let (mut head, body) = request.into_parts();
        // It would announce itself as instant-acme; the CA's operators look for whom to write to.
        head.headers.remove(http::header::USER_AGENT);
        let body =
            body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        match self.send(at, Request::from_parts(head, body)).await {
            Ok(answer) => Ok(answer.into()),
            Err(Error::Refused(refusal)) if refusal.is_bad_nonce() => Ok(bad_nonce(&refusal)),
            Err(error) => Err(error),
        }
    }
}

impl From<Answer> for BytesResponse {
    fn from(answer: Answer) -> Self {
        let mut response = Response::new(Full::new(answer.body));
        *response.headers_mut() = answer.headers;
        response.into()
    }
}

fn bad_nonce(refusal: &Refusal) -> BytesResponse {
    let kind = "urn:ietf:params:acme:error:badNonce";
    let body = serde_json::json!({ "type": kind, "detail": refusal.problem.detail }).to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.into()
}

/// What instant-acme's error was made from.
pub(crate) fn told(at: Point, error: instant_acme::Error) -> Error {
    match error {
        instant_acme::Error::Other(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => malformed(at, &other.to_string()),
        },
        instant_acme::Error::Api(problem) => Error::Refused(Box::new(Refusal {
            at,
            status: StatusCode::BAD_REQUEST.as_u16(),
            problem: (&problem).into(),
            retry_after: None,
        })),
        // JSON that is none of what was asked for is about that one thing; what is no JSON is not from an ACME server.
        instant_acme::Error::Json(ref why) if why.is_data() => malformed(at, &error.to_string()),
        instant_acme::Error::Str(_) => malformed(at, &error.to_string()),
        instant_acme::Error::Json(_) => not_acme(at, &error.to_string()),
        other => malformed(at, &other.to_string()),
    }
}
