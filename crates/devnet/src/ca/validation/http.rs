//! HTTP-01: a real fetch at the address the zone gives (RFC 8555, section 8.3).
//!
//! IPv6 before IPv4; only when it cannot be connected to is IPv4 tried, never when it answers wrongly. Up to ten
//! redirects, to the two ports and no others; what stands behind HTTPS is not verified.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{HOST, LOCATION, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::Ca;
use super::super::problem::{Kind, Problem};
use super::{Task, tls};

const REDIRECTS: usize = 10;

/// How much of an answer is read.
const BODY_LIMIT: usize = 16 * 1024;

/// Fetches the token and compares.
pub(super) async fn check(ca: &Ca, task: &Task) -> Result<(), Problem> {
    let mut url = Url {
        https: false,
        host: task.name.clone(),
        path: format!("/.well-known/acme-challenge/{}", task.token),
    };
    for _ in 0..=REDIRECTS {
        let (address, response) = fetch(ca, &url).await?;
        match redirect(ca, &response, &url)? {
            Some(next) => url = next,
            None => return compare(task, &url, address, response).await,
        }
    }
    Err(Problem::new(Kind::Connection, format!("{}: more than {REDIRECTS} redirects", task.name)))
}

/// Where to fetch; the port follows from the scheme.
struct Url {
    https: bool,
    host: String,
    path: String,
}

impl Url {
    fn text(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host, self.path)
    }
}

async fn fetch(ca: &Ca, url: &Url) -> Result<(SocketAddr, Response<Incoming>), Problem> {
    let addresses = ca.resolver.addresses(&url.host).await?;
    let port = if url.https { ca.tls_port() } else { ca.http_port() };
    let (stream, address) = tls::connect(ca, &addresses, port, &url.host).await?;
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(Kind::Connection, format!("{address}: fetching {}: {error}", url.text()))
    };
    let response = match url.https {
        true => {
            let stream = tls::handshake(stream, &url.host, Some(b"http/1.1")).await;
            exchange(stream.map_err(|error| failed(&error))?, url).await
        }
        false => exchange(stream, url).await,
    };
    Ok((address, response.map_err(|error| failed(&error))?))
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &Url,
) -> Result<Response<Incoming>, hyper::Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends by itself when the answer was read or dropped.
    tokio::spawn(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = url.path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, http::HeaderValue::from_static("Holdfast-development-CA"));
    if let Ok(host) = url.host.parse() {
        headers.insert(HOST, host);
    }
    sender.send_request(request).await
}

fn redirect(ca: &Ca, response: &Response<Incoming>, from: &Url) -> Result<Option<Url>, Problem> {
    if ![301, 302, 303, 307, 308].contains(&response.status().as_u16()) {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| location.parse::<Uri>().ok());
    let ports = (ca.http_port(), ca.tls_port());
    let next = target.and_then(|target| follow(&target, from, ports));
    next.map(Some).ok_or_else(|| {
        let detail = format!(
            "{} redirects to {:?}: only http and https on their own ports are followed",
            from.text(),
            location.unwrap_or_default()
        );
        Problem::new(Kind::Connection, detail)
    })
}

fn follow(target: &Uri, from: &Url, (http, tls): (u16, u16)) -> Option<Url> {
    let path = target.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let Some(host) = target.host() else {
        return path.starts_with('/').then(|| Url {
            https: from.https,
            host: from.host.clone(),
            path,
        });
    };
    let https = match target.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let ports = if https { [443, tls] } else { [80, http] };
    let is_name = host.parse::<std::net::IpAddr>().is_err() && !host.starts_with('[');
    let port_fits = target.port_u16().is_none_or(|port| ports.contains(&port));
    (is_name && port_fits).then(|| Url { https, host: host.to_ascii_lowercase(), path })
}

async fn compare(
    task: &Task,
    url: &Url,
    address: SocketAddr,
    response: Response<Incoming>,
) -> Result<(), Problem> {
    let status = response.status();
    let wrong = |what: String| {
        Err(Problem::unauthorized(format!(
            "{address}: invalid response from {}: {what}",
            url.text()
        )))
    };
    if !status.is_success() {
        return wrong(status.as_u16().to_string());
    }
    let Ok(body) = Limited::new(response.into_body(), BODY_LIMIT).collect().await else {
        return wrong(format!("its body breaks off or is larger than {BODY_LIMIT} bytes"));
    };
    let body = body.to_bytes();
    let text = String::from_utf8_lossy(&body);
    if text.trim_end() == task.key_authorization {
        return Ok(());
    }
    wrong(format!("{:?} is not the key authorization", text.chars().take(100).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_the_two_ports() {
        let from = Url { https: false, host: "a.test".to_owned(), path: "/x".to_owned() };
        let cases = [
            ("/y?z", Some("http://a.test/y?z")),
            ("https://b.test/y", Some("https://b.test/y")),
            ("http://B.test", Some("http://b.test/")),
            ("http://b.test:80/y", Some("http://b.test/y")),
            ("https://b.test:443/y", Some("https://b.test/y")),
            ("https://b.test:8643/y", Some("https://b.test/y")),
            ("http://b.test:8643/y", None),
            ("http://b.test:8080/y", None),
            ("https://b.test:80/y", None),
            ("http://127.0.0.1/y", None),
            ("http://[::1]/y", None),
            ("ftp://b.test/y", None),
        ];
        for (target, expected) in cases {
            let followed =
                follow(&target.parse().unwrap(), &from, (8680, 8643)).map(|url| url.text());
            assert_eq!(followed.as_deref(), expected, "{target}");
        }
    }
}
