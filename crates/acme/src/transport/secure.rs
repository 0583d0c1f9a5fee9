//! Keys and proofs travel over TLS, or not beyond this machine; and only to where the CA's directory leads.
//!
//! A CA names a URL in almost every answer. One that leads elsewhere would have signed requests sent to whoever listens there,
//! and one that cannot be asked would be asked for ever once it is stored.

use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

use crate::Error;

/// Longest URL taken from a CA.
const LONGEST: usize = 2_000;

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    https: bool,
    host: String,
    port: u16,
}

/// So many origins that a directory named before are remembered.
const REMEMBERED: usize = 8;

/// Where a CA may be asked: at the origin of its directory, and at those that the directory names, or named since this process began:
/// orders that were made there lead there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origins {
    own: Option<Origin>,
    named: Vec<Origin>,
}

/// Why a URL of a CA is not taken; completes "the URL …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Too long.
    #[error("is longer than {LONGEST} bytes")]
    TooLong,
    /// Not an absolute URL, or with a user's name or a fragment in it.
    #[error("is no URL that can be asked")]
    NotAbsolute,
    /// In the open.
    #[error("is not https")]
    Insecure,
    /// On this machine, where the CA is not.
    #[error("leads to this machine, and the CA is elsewhere")]
    Loopback,
    /// At another server.
    #[error("leads to a server that the CA's directory does not name")]
    Elsewhere,
}

impl Origins {
    /// Of a CA whose directory has not been read: its own origin alone.
    pub(crate) fn of(directory: &str) -> Self {
        Self { own: parsed(directory).ok(), named: Vec::new() }
    }

    /// With what the directory names now.
    pub(crate) fn naming<'a>(
        &self,
        urls: impl Iterator<Item = &'a String>,
    ) -> Result<Self, (String, BadUrl)> {
        let mut named: Vec<Origin> = Vec::new();
        for url in urls {
            let origin = self.may_be_named(url).map_err(|why| (url.clone(), why))?;
            if !named.contains(&origin) {
                named.push(origin);
            }
        }
        let before = self.named.iter().filter(|old| !named.contains(old)).cloned();
        named.extend(before.take(REMEMBERED).collect::<Vec<_>>());
        Ok(Self { own: self.own.clone(), named })
    }

    /// May a directory name this? A CA that is elsewhere has no business on this machine.
    fn may_be_named(&self, url: &str) -> Result<Origin, BadUrl> {
        let origin = parsed(url)?;
        let is_here = self.own.as_ref().is_some_and(|own| is_loopback(&own.host));
        match is_loopback(&origin.host) {
            true if !is_here => Err(BadUrl::Loopback),
            _ => Ok(origin),
        }
    }

    /// May this be stored and asked?
    pub(crate) fn check(&self, url: &str) -> Result<(), BadUrl> {
        let origin = parsed(url)?;
        match self.own.iter().chain(&self.named).any(|known| *known == origin) {
            true => Ok(()),
            false => Err(BadUrl::Elsewhere),
        }
    }
}

fn parsed(url: &str) -> Result<Origin, BadUrl> {
    if url.len() > LONGEST {
        return Err(BadUrl::TooLong);
    }
    // A fragment is not sent, but it would be signed.
    if !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(BadUrl::NotAbsolute);
    }
    let url: Uri = url.parse().map_err(|_| BadUrl::NotAbsolute)?;
    let (Some(scheme), Some(authority)) = (url.scheme(), url.authority()) else {
        return Err(BadUrl::NotAbsolute);
    };
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return Err(BadUrl::NotAbsolute);
    }
    if !is_secure(&url) {
        return Err(BadUrl::Insecure);
    }
    let https = *scheme == Scheme::HTTPS;
    let port = authority.port_u16().unwrap_or(if https { 443 } else { 80 });
    Ok(Origin { https, host: authority.host().to_ascii_lowercase(), port })
}

fn is_secure(url: &Uri) -> bool {
    match url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => url.host().is_some(),
        Some(scheme) if *scheme == Scheme::HTTP => url.host().is_some_and(is_loopback),
        _ => false,
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let host = host.to_ascii_lowercase();
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| {
            let address = address.to_canonical();
            address.is_loopback() || address.is_unspecified()
        })
}

/// Refuses a configured directory that is none, or that is not safe.
pub(crate) fn check_directory(directory: &str) -> Result<(), Error> {
    let bad = || Error::BadDirectory(directory.to_owned());
    let url: Uri = directory.parse().map_err(|_| bad())?;
    match url.scheme_str() {
        Some("http" | "https") if url.host().is_some_and(|host| !host.is_empty()) => {}
        _ => return Err(bad()),
    }
    if !is_secure(&url) {
        return Err(Error::InsecureDirectory(directory.to_owned()));
    }
    parsed(directory).map(drop).map_err(|_| bad())
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

    fn named(directory: &str, urls: &[&str]) -> Result<Origins, (String, BadUrl)> {
        let urls: Vec<_> = urls.iter().map(ToString::to_string).collect();
        Origins::of(directory).naming(urls.iter())
    }

    #[test]
    fn a_ca_is_asked_where_its_directory_leads_and_nowhere_else() {
        let directory = "https://ca.example/dir";
        let known = named(directory, &["https://acme.ca.example:8443/new-order"]).unwrap();
        let long = format!("https://ca.example/{}", "x".repeat(2_000));
        let cases = [
            ("https://ca.example/order/1", Ok(())),
            ("https://CA.example:443/order/1?x=y", Ok(())),
            ("https://acme.ca.example:8443/order/1", Ok(())),
            ("https://acme.ca.example/order/1", Err(BadUrl::Elsewhere)),
            ("https://ca.example:1/order", Err(BadUrl::Elsewhere)),
            ("https://evil.example/order", Err(BadUrl::Elsewhere)),
            ("https://127.0.0.1/order", Err(BadUrl::Elsewhere)),
            ("http://ca.example/order", Err(BadUrl::Insecure)),
            ("http://127.0.0.1/order", Err(BadUrl::Elsewhere)),
            ("file:///etc/passwd", Err(BadUrl::NotAbsolute)),
            ("/order/1", Err(BadUrl::NotAbsolute)),
            ("order/1", Err(BadUrl::NotAbsolute)),
            ("", Err(BadUrl::NotAbsolute)),
            ("https://ca.example@evil.example/", Err(BadUrl::NotAbsolute)),
            ("https://ca.example/order#1", Err(BadUrl::NotAbsolute)),
            ("https://ca.example/\0", Err(BadUrl::NotAbsolute)),
            ("https://ca.example/a b", Err(BadUrl::NotAbsolute)),
            (long.as_str(), Err(BadUrl::TooLong)),
        ];
        for (url, expected) in cases {
            assert_eq!(known.check(url), expected, "{url}");
        }
        assert_eq!(Origins::of(directory).check("https://ca.example/nonce"), Ok(()));
        // An order that was made before the directory changed.
        let mut changed = known.naming([].iter()).unwrap();
        assert_eq!(changed.check("https://acme.ca.example:8443/order/1"), Ok(()));
        for number in 0..100 {
            let next = format!("https://{number}.ca.example/");
            changed = changed.naming([next.clone()].iter()).unwrap();
            assert_eq!(changed.check(&next), Ok(()));
        }
        assert_eq!(changed.named.len(), 1 + REMEMBERED);
    }

    #[test]
    fn a_directory_elsewhere_names_nothing_on_this_machine() {
        for url in [
            "https://127.0.0.1:8600/",
            "https://localhost/",
            "https://[::1]/",
            "https://0.0.0.0/",
            "https://[::ffff:127.0.0.1]/",
            "http://127.0.0.1/",
        ] {
            assert_eq!(
                named("https://ca.example/d", &[url]).unwrap_err().1,
                BadUrl::Loopback,
                "{url}"
            );
        }
        named("https://127.0.0.1:4000/d", &["https://localhost:4001/"]).unwrap();
        named("http://127.0.0.1:4000/d", &["http://127.0.0.1:4001/"]).unwrap();
        assert_eq!(named("https://ca.example/d", &["x"]).unwrap_err().1, BadUrl::NotAbsolute);
    }
}
