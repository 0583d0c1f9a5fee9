//! A way through a plain HTTP proxy: CONNECT, and then whatever is spoken inside.

use std::io;

use http::Uri;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{Error, Result};

/// A longer head is no answer to CONNECT.
const LONGEST: usize = 16 * 1024;

/// A host and a port.
#[derive(Debug, Clone)]
pub(super) struct Place {
    host: String,
    port: u16,
}

impl Place {
    pub(super) fn of(uri: &Uri) -> Result<Self> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(Error::Unconfigurable(format!("{uri} names no host")));
        }
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        Ok(Self { host, port: uri.port_u16().unwrap_or(default) })
    }

    pub(super) fn of_proxy(uri: &Uri) -> Result<Self> {
        if uri.scheme_str() != Some("http") {
            let why = format!(
                "the proxy {uri} is no http URL; what passes through it is encrypted by itself"
            );
            return Err(Error::Unconfigurable(why));
        }
        Self::of(uri)
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn pair(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    fn shown(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Asks a proxy for a way to a place.
pub(super) async fn through(
    mut tcp: TcpStream,
    proxy: &Place,
    to: &Place,
) -> io::Result<TcpStream> {
    let to = to.shown();
    let ask = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    tcp.write_all(ask.as_bytes()).await?;
    // Byte by byte: what comes after the head belongs to TLS.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= LONGEST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the proxy's answer has no end",
            ));
        }
        head.push(tcp.read_u8().await?);
    }
    let line = String::from_utf8_lossy(&head);
    let line = line.lines().next().unwrap_or_default();
    if line.split(' ').nth(1).is_some_and(|status| status.starts_with('2')) {
        return Ok(tcp);
    }
    let said = format!("the proxy {} refused the way to {to}: {line}", proxy.shown());
    Err(io::Error::new(io::ErrorKind::ConnectionRefused, said))
}
