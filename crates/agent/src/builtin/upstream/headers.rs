//! Which headers pass from one side to the other.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName,
    HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

use http::Method;

use crate::builtin::asked::Asked;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// They speak of one connection (RFC 9110, 7.6.1).
const OF_ONE_CONNECTION: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// They say who the visitor is, and only the edge knows; so do all that begin with `x-forwarded`.
const OF_THE_EDGE: [HeaderName; 3] =
    [FORWARDED, HeaderName::from_static("x-real-ip"), HeaderName::from_static("x-client-ip")];

pub(super) fn strip_request(headers: &mut HeaderMap) {
    strip_connection(headers);
    strip_reserved(headers);
    // The edge has said "continue" itself when it reads the body; and the length is that of the body it read.
    headers.remove(EXPECT);
    headers.remove(CONTENT_LENGTH);
    join_cookies(headers);
}

/// Removes what only the edge may say, about the visitor and about framing, in any spelling: CGI and what came after it
/// (WSGI, Rack, PHP) read an underscore as a hyphen.
fn strip_reserved(headers: &mut HeaderMap) {
    let reserved: Vec<_> = headers.keys().filter(|name| is_reserved(name)).cloned().collect();
    for name in reserved {
        headers.remove(name);
    }
}

fn is_reserved(name: &HeaderName) -> bool {
    let spelled = name.as_str();
    let meant = match spelled.contains('_') {
        true => Cow::Owned(spelled.replace('_', "-")),
        false => Cow::Borrowed(spelled),
    };
    let is_in = |names: &[HeaderName]| names.iter().any(|name| name.as_str() == meant);
    let is_disguised = spelled != meant
        && (is_in(&OF_ONE_CONNECTION) || is_in(&[HOST, CONTENT_LENGTH, EXPECT, COOKIE]));
    meant.starts_with("x-forwarded") || is_in(&OF_THE_EDGE) || is_disguised
}

/// HTTP/2 sends cookies one by one; HTTP/1.1 has one header for all (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

pub(super) fn strip_answer(headers: &mut HeaderMap) {
    // Of two lengths the chunks are the one that was read by (RFC 9112, 6.3); another would cut the answer.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip_connection(headers);
}

/// Says that there is no body, where the method makes one expect (RFC 9110, 8.6); servers answer 411 otherwise.
pub(super) fn declare_no_body(headers: &mut HeaderMap, method: &Method) {
    let never = [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS];
    if !never.contains(method) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
}

fn strip_connection(headers: &mut HeaderMap) {
    let named: Vec<_> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect();
    // Naming it must not take away what the other side relies on.
    for name in named.iter().filter(|name| **name != HOST && **name != CONTENT_LENGTH) {
        headers.remove(name);
    }
    for name in OF_ONE_CONNECTION {
        headers.remove(name);
    }
}

/// Says for whom the request is. The host stays as the visitor sent it.
pub(super) fn introduce(headers: &mut HeaderMap, asked: &Asked, peer: IpAddr) {
    let mut host = asked.name.to_string();
    if let Some(port) = asked.port {
        host = format!("{host}:{port}");
    }
    for (name, value) in [
        (HOST, host.clone()),
        (X_FORWARDED_FOR, peer.to_canonical().to_string()),
        (X_FORWARDED_HOST, host),
        (X_FORWARDED_PROTO, "https".to_owned()),
    ] {
        // Names, addresses and ports are plain ASCII.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(
                HeaderName::try_from(*name).unwrap(),
                HeaderValue::try_from(*value).unwrap(),
            );
        }
        headers
    }

    #[test]
    fn what_concerns_one_connection_stays_on_it() {
        let mut given = headers(&[
            ("connection", "close, X-Secret, Host"),
            ("connection", "content-length"),
            ("x-secret", "1"),
            ("host", "a.test"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("keep-alive", "timeout=5"),
            ("content-length", "5"),
            ("expect", "100-continue"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x_forwarded_for", "1.2.3.4"),
            ("x-forwarded_anything", "1.2.3.4"),
            ("content_length", "7"),
            ("forwarded", "for=1.2.3.4"),
            ("cookie", "a=b"),
            ("cookie", "c=d"),
            ("authorization", "Bearer x"),
        ]);
        strip_request(&mut given);
        let mut left: Vec<_> = given.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "cookie", "host"]);
        assert_eq!(given["cookie"], "a=b; c=d");
        assert_eq!(given.len(), 3);
    }

    #[test]
    fn an_answer_keeps_its_length() {
        let mut given =
            headers(&[("content-length", "5"), ("connection", "content-length, close")]);
        strip_answer(&mut given);
        assert_eq!(given.len(), 1);
        assert_eq!(given["content-length"], "5");
    }

    #[test]
    fn of_two_lengths_the_chunks_are_believed() {
        let mut given = headers(&[("content-length", "2"), ("transfer-encoding", "chunked")]);
        strip_answer(&mut given);
        assert!(given.is_empty(), "{given:?}");
    }

    #[test]
    fn the_visitor_is_introduced() {
        let asked = Asked { name: "a.test".parse().unwrap(), port: Some(8643) };
        let mut given = headers(&[("host", "spoofed.test")]);
        introduce(&mut given, &asked, "::ffff:192.0.2.7".parse().unwrap());
        assert_eq!(given["host"], "a.test:8643");
        assert_eq!(given["x-forwarded-host"], "a.test:8643");
        assert_eq!(given["x-forwarded-for"], "192.0.2.7");
        assert_eq!(given["x-forwarded-proto"], "https");
    }
}
