//! Which host a request asks for. Whatever is not exactly one host name is refused, in a sentence.

use holdfast_model::{Hostname, HostnameError};
use http::Request;
use http::header::HOST;

/// The host of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) name: Hostname,
    pub(super) port: Option<u16>,
}

/// Why a request names no host that could be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHost {
    #[error("the request has no Host header; send one with the name you want")]
    Missing,
    #[error("the request has more than one host; send one")]
    Several,
    #[error("the Host header is not a host name with an optional port")]
    Malformed,
    #[error("the Host header is not a name this edge could serve: {0}")]
    NoName(#[from] HostnameError),
}

/// The host of a request: its target's if it has one (HTTP/2, absolute form), and then no other.
pub(super) fn asked<B>(request: &Request<B>) -> Result<Asked, BadHost> {
    let mut headers = request.headers().get_all(HOST).iter();
    let header = headers.next();
    if headers.next().is_some() {
        return Err(BadHost::Several);
    }
    let header = header
        .map(|value| value.to_str().map_err(|_| BadHost::Malformed))
        .transpose()?
        .map(parse)
        .transpose()?;
    let target =
        request.uri().authority().map(|authority| parse(authority.as_str())).transpose()?;
    match (target, header) {
        (Some(target), Some(header)) if target != header => Err(BadHost::Several),
        (Some(asked), _) | (None, Some(asked)) => Ok(asked),
        (None, None) => Err(BadHost::Missing),
    }
}

/// `NAME` or `NAME:PORT`.
fn parse(text: &str) -> Result<Asked, BadHost> {
    if !text.is_ascii() || text.contains(['@', '/', '\\', '%']) {
        return Err(BadHost::Malformed);
    }
    let (name, port) = match text.rsplit_once(':') {
        // Inside brackets it is an address, which the name's parser refuses in its own words.
        Some((_, last)) if last.contains(']') => (text, None),
        Some((name, port)) => (name, parse_port(port)?),
        None => (text, None),
    };
    if name.is_empty() {
        return Err(BadHost::Missing);
    }
    Ok(Asked { name: Hostname::parse_host(name)?, port })
}

fn parse_port(text: &str) -> Result<Option<u16>, BadHost> {
    if text.is_empty() {
        return Ok(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadHost::Malformed);
    }
    text.parse().map(Some).map_err(|_| BadHost::Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, Option<u16>), &str>) {
        let seen = parse(text);
        let seen = match &seen {
            Ok(asked) => Ok((asked.name.as_str(), asked.port)),
            Err(error) => Err(match error {
                BadHost::Missing => "missing",
                BadHost::Several => "several",
                BadHost::Malformed => "malformed",
                BadHost::NoName(_) => "no name",
            }),
        };
        assert_eq!(seen, expected, "for {text:?}");
    }

    #[test]
    fn hosts() {
        check("shop.test", Ok(("shop.test", None)));
        check("Shop.TEST:8680", Ok(("shop.test", Some(8680))));
        check("shop.test.", Ok(("shop.test", None)));
        check("shop.test:", Ok(("shop.test", None)));
        check("", Err("missing"));
        check(":80", Err("missing"));
        check("shop.test:99999", Err("malformed"));
        check("shop.test:+80", Err("malformed"));
        check("shop.test:80:80", Err("no name"));
        check("user@shop.test", Err("malformed"));
        check("shop.test/../x", Err("malformed"));
        check("shop.test\\x", Err("malformed"));
        check("b%C3%BCcher.test", Err("malformed"));
        check("bücher.test", Err("malformed"));
        check("127.0.0.1:80", Err("no name"));
        check("[::1]:80", Err("no name"));
        check("[::1]", Err("no name"));
        check("localhost", Err("no name"));
        check("a b.test", Err("no name"));
        check("a.test, b.test", Err("no name"));
    }

    fn request(uri: &str, hosts: &[&str]) -> Request<()> {
        let mut request = Request::builder().uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn a_request_has_one_host() {
        let name = |uri: &str, hosts: &[&str]| {
            asked(&request(uri, hosts)).map(|asked| asked.name.to_string())
        };
        assert_eq!(name("/", &["a.test"]).unwrap(), "a.test");
        assert_eq!(name("http://a.test/", &[]).unwrap(), "a.test");
        assert_eq!(name("http://a.test/", &["A.test"]).unwrap(), "a.test");
        assert_eq!(name("http://a.test/", &["b.test"]), Err(BadHost::Several));
        assert_eq!(name("/", &["a.test", "a.test"]), Err(BadHost::Several));
        assert_eq!(name("/", &[]), Err(BadHost::Missing));
    }

    proptest! {
        #[test]
        fn what_is_taken_is_a_plain_name(text in any::<String>()) {
            if let Ok(asked) = parse(&text) {
                let name = asked.name.as_str();
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)));
                prop_assert!(text.to_ascii_lowercase().starts_with(name));
            }
        }
    }
}
