//! Keys and proofs travel over TLS, or not beyond this machine.

use std::net::IpAddr;

use holdfast_gateway::point::Point;
use http::Uri;
use http::uri::Scheme;

use super::malformed;
use crate::Error;

/// Refuses a URL of the CA that would have us speak in the open.
pub(crate) fn check(at: Point, url: &Uri) -> Result<(), Error> {
    if is_secure(url) { Ok(()) } else { Err(malformed(at, &format!("`{url}` is not https"))) }
}

pub(super) fn is_secure(url: &Uri) -> bool {
    match url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => url.host().is_some(),
        Some(scheme) if *scheme == Scheme::HTTP => url.host().is_some_and(is_loopback),
        _ => false,
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Refuses a configured directory that is none, or that is not safe.
pub(crate) fn check_directory(directory: &str) -> Result<(), Error> {
    let bad = || Error::BadDirectory(directory.to_owned());
    let url: Uri = directory.parse().map_err(|_| bad())?;
    match url.scheme_str() {
        Some("http" | "https") if url.host().is_some_and(|host| !host.is_empty()) => {}
        _ => return Err(bad()),
    }
    if is_secure(&url) { Ok(()) } else { Err(Error::InsecureDirectory(directory.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_spoken_to_in_the_open() {
        let good = [
            "https://ca.example/dir",
            "http://127.0.0.1:4000/dir",
            "http://[::1]/dir",
            "http://localhost:80/d",
        ];
        for url in good {
            assert!(check_directory(url).is_ok(), "{url}");
        }
        for url in
            ["http://ca.example/dir", "http://10.0.0.1/dir", "http://localhost.evil.example/"]
        {
            let error = check_directory(url).unwrap_err();
            assert!(matches!(error, Error::InsecureDirectory(_)), "{url}: {error}");
        }
        for url in ["", "ca.example/dir", "ftp://ca.example/", "/dir", "https://", "https:///dir"] {
            let error = check_directory(url).unwrap_err();
            assert!(matches!(error, Error::BadDirectory(_)), "{url}: {error}");
        }
    }
}
