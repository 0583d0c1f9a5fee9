//! Which headers pass from one side to the other.

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName,
    HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

use crate::builtin::asked::Asked;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// They speak of one connection (RFC 9110, 7.6.1).
const OF_ONE_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// They say who the visitor is, and only the edge knows.
const OF_THE_EDGE: [HeaderName; 6] = [
    FORWARDED,
    X_FORWARDED_FOR,
    X_FORWARDED_HOST,
    X_FORWARDED_PROTO,
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-real-ip"),
];

pub(super) fn strip_request(headers: &mut HeaderMap) {
    strip_connection(headers);
    for name in OF_THE_EDGE {
        headers.remove(name);
    }
    // The edge has said "continue" itself when it reads the body; and the length is that of the body it read.
    headers.remove(EXPECT);
    headers.remove(CONTENT_LENGTH);
    join_cookies(headers);
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
    strip_connection(headers);
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
