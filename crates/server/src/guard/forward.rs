//! Passing a write on to the leader, once. Its body is streamed there and the answer's body back; nothing is kept, so nothing can be
//! sent again.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use holdfast_cluster::Master;
use holdfast_gateway::client::Error;
use http::{HeaderMap, HeaderName, Uri, header};

use super::pass::{self, Pass};
use super::{no_leader, url_at};
use crate::{AppState, Kind, Problem, proof};

/// What is said between two neighbours and is none of the next one's business (RFC 9110, 7.6.1); the client sets `Host` anew.
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Sends the request to the leader and gives its answer.
pub(super) async fn forward(
    state: &AppState,
    request: Request,
    master: &Master,
) -> Result<Response, Problem> {
    let uri: Uri = url_at(master, &request).parse().map_err(|_| no_leader())?;
    if !state.allow_plaintext && !is_private(&uri) {
        return Err(insecure(master));
    }
    let secret = proof::secret(state).await?;
    let proof = pass::seal(secret, Pass { term: master.term, hop: 1 }, &request);
    let (parts, body) = request.into_parts();
    let mut sent = http::Request::new(body);
    *sent.method_mut() = parts.method;
    *sent.uri_mut() = uri;
    *sent.headers_mut() = end_to_end(parts.headers);
    sent.headers_mut().extend(proof.map(|proof| (pass::HEADER, proof)));
    let answer =
        state.guard.client.send_streaming(sent).await.map_err(|error| lost(master, error))?;
    let (mut head, body) = answer.into_parts();
    head.headers = end_to_end(head.headers);
    Ok(Response::from_parts(head, Body::new(body)))
}

fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    headers
}

/// Can nobody on the way read along? A forwarded request carries the caller's token.
fn is_private(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    uri.scheme_str() == Some("https") || loopback || host == "localhost"
}

fn insecure(master: &Master) -> Problem {
    let detail = format!(
        "The leader is reached at {}, over which tokens are not sent; give every replica a `[server] url` with https, or set `[security] allow_plaintext = true` where the network is trusted.",
        master.url
    );
    Problem::new(Kind::ForwardInsecure, detail)
}

/// Whether the request was sent decides what the client may do next.
fn lost(master: &Master, error: Error) -> Problem {
    let (outcome, problem) = if error.never_sent() {
        let detail = format!(
            "The leader `{}` cannot be reached and nothing was sent; send the same again soon.",
            master.instance_id
        );
        let problem = Problem::new(Kind::LeaderUnreachable, detail);
        ("unreachable", problem.header(header::RETRY_AFTER, "2"))
    } else {
        let detail = format!(
            "The leader `{}` was sent this and its answer did not come; look whether it was done before you send it again.",
            master.instance_id
        );
        ("unknown", Problem::new(Kind::AnswerLost, detail))
    };
    metrics::counter!("holdfast_forwards_lost_total", "outcome" => outcome).increment(1);
    problem.caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neighbours_say_goes_no_further() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "close, X-Mine"), ("x-mine", "1"), ("te", "trailers"), ("x-other", "2")]
        {
            headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        }
        let left: Vec<_> = end_to_end(headers).keys().map(ToString::to_string).collect();
        assert_eq!(left, ["x-other"]);
    }

    #[test]
    fn tokens_go_over_tls_or_stay_on_this_machine() {
        for (uri, private) in [
            ("https://10.0.0.7/x", true),
            ("http://127.0.0.1:8600/x", true),
            ("http://[::1]:8600/x", true),
            ("http://localhost/x", true),
            ("http://10.0.0.7/x", false),
            ("http://127.0.0.1.example.com/x", false),
        ] {
            assert_eq!(is_private(&uri.parse().unwrap()), private, "{uri}");
        }
    }
}
