//! Plain HTTP: challenges and proofs are answered, everything else is sent to HTTPS.

use std::convert::Infallible;
use std::sync::Arc;

use http::header::{HeaderValue, LOCATION};
use http::{Method, Request, StatusCode};
use hyper::service::service_fn;
use tokio::net::TcpStream;

use super::answer::{Answer, text};
use super::asked::asked;
use super::connection;
use super::door::{Guest, Host};
use super::pulse::keeping_busy;
use super::source::Source;
use super::well_known;

pub(super) struct Plain {
    source: Arc<dyn Source>,
    https_port: u16,
}

impl Plain {
    pub(super) fn new(source: Arc<dyn Source>, https_port: u16) -> Self {
        Self { source, https_port }
    }
}

impl Host for Plain {
    async fn welcome(self: Arc<Self>, tcp: TcpStream, guest: Guest) {
        let service = service_fn(|request| {
            let (plain, pulse) = (self.clone(), guest.pulse.clone());
            async move {
                let busy = pulse.begin();
                let answer = match well_known::answer(plain.source.as_ref(), &request).await {
                    Some(answer) => answer,
                    None => redirect(&request, plain.https_port),
                };
                Ok::<_, Infallible>(answer.map(|body| keeping_busy(body, busy)))
            }
        });
        connection::http1(tcp, service, &guest).await;
    }
}

/// To the same host, path and query over HTTPS; the method stays too.
fn redirect<B>(request: &Request<B>, https_port: u16) -> Answer {
    let asked = match asked(request) {
        Ok(asked) => asked,
        Err(bad) => return text(StatusCode::BAD_REQUEST, bad.to_string()),
    };
    let Some(path) = request.uri().path_and_query().map(http::uri::PathAndQuery::as_str) else {
        return no_path();
    };
    if request.method() == Method::CONNECT || !path.starts_with('/') {
        return no_path();
    }
    let port = if https_port == 443 { String::new() } else { format!(":{https_port}") };
    let location = format!("https://{}{port}{path}", asked.name);
    let Ok(location) = HeaderValue::try_from(location) else { return no_path() };
    let mut answer = text(StatusCode::PERMANENT_REDIRECT, "this is served over HTTPS");
    answer.headers_mut().insert(LOCATION, location);
    answer
}

fn no_path() -> Answer {
    text(StatusCode::BAD_REQUEST, "the request asks for no path; ask for one that begins with /")
}

#[cfg(test)]
mod tests {
    use http::header::HOST;
    use proptest::prelude::*;

    use super::*;

    fn to(uri: &str, host: &str, port: u16) -> Option<String> {
        let request = Request::builder().uri(uri).header(HOST, host).body(()).ok()?;
        let answer = redirect(&request, port);
        let location = answer
            .headers()
            .get(LOCATION)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let expected = if location.is_some() { 308 } else { 400 };
        assert_eq!(answer.status(), expected);
        location
    }

    #[test]
    fn path_and_query_are_kept() {
        let check = |uri: &str, host: &str, port: u16, expected: &str| {
            assert_eq!(to(uri, host, port).as_deref(), Some(expected));
        };
        check("/", "shop.test", 443, "https://shop.test/");
        check("/a/b?c=d&e", "Shop.test:8680", 8643, "https://shop.test:8643/a/b?c=d&e");
        check("//evil.test/x", "shop.test", 443, "https://shop.test//evil.test/x");
        check("http://shop.test/x", "shop.test", 443, "https://shop.test/x");
        assert_eq!(to("*", "shop.test", 443), None);
        assert_eq!(to("/", "shop.test@evil.test", 443), None);
        assert_eq!(to("/", "127.0.0.1", 443), None);
    }

    proptest! {
        #[test]
        fn nobody_is_led_elsewhere(uri in "/?[ -~é]{0,40}", host in "[ -~]{0,30}", port in 1u16..) {
            if let Some(location) = to(&uri, &host, port) {
                let (name, rest) = location.strip_prefix("https://").unwrap().split_once('/').unwrap();
                let name = name.strip_suffix(&format!(":{port}")).unwrap_or(name);
                prop_assert!(host.to_ascii_lowercase().starts_with(name), "{} from {}", location, host);
                prop_assert!(!location.contains(['\r', '\n', '\0']));
                prop_assert!(uri.ends_with(rest) || uri.contains('#') || uri.starts_with("http"), "{} from {}", location, uri);
            }
        }
    }
}
