//! Addresses of other systems, checked when they are read. What may hold a password is never shown.

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
};

use http::Uri;
use serde::{Deserialize, Deserializer, de};

/// An `http` or `https` URL without credentials.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct WebUrl {
    text: String,
    uri: Uri,
}

impl WebUrl {
    /// Takes it apart, or says in a clause why not.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "it is no URL")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("it does not begin with http:// or https://");
        }
        let authority = uri.authority().ok_or("it names no host")?;
        if authority.as_str().contains('@') {
            return Err("it holds credentials, which would end up in logs");
        }
        if authority.host().is_empty() || authority.as_str().ends_with(':') {
            return Err("it names no host, or an empty port");
        }
        let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if !port.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
            return Err("its port is not from 1 to 65535");
        }
        Ok(Self { text: text.trim_end_matches('/').to_owned(), uri })
    }

    /// Is what is sent there encrypted?
    pub(crate) fn is_https(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// Does it stay on this machine?
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.uri.host().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.is_ok_and(|address| address.is_loopback()) || host == "localhost"
    }

    /// Is it no more than scheme, host and port?
    pub(crate) fn is_bare(&self) -> bool {
        self.uri.path_and_query().is_none_or(|rest| rest.as_str() == "/")
    }

    /// As text, without a trailing slash.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl<'de> Deserialize<'de> for WebUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

/// Which database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum DatabaseUrl {
    /// PostgreSQL, by its URL, which may hold a password.
    Postgres(String),
    /// SQLite, by its file.
    Sqlite(PathBuf),
}

impl DatabaseUrl {
    /// Takes it apart, or says in a clause why not.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let fault = |text: &str| Err(text.to_owned());
        if let Some(file) = text.strip_prefix("sqlite:") {
            let file = file.strip_prefix("//").unwrap_or(file);
            return match file {
                "" => fault("it names no file"),
                ":memory:" => fault("what is kept in memory is lost; name a file"),
                file if file.contains('?') => fault("options are not taken; name the file alone"),
                file => Ok(Self::Sqlite(PathBuf::from(file))),
            };
        }
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        match rest {
            // A socket's directory is named as a parameter: postgres:///holdfast?host=/run/postgresql
            Some(rest) if rest.starts_with(['?', '/']) && !rest.contains("host=") => {
                fault("it names no host")
            }
            Some("") => fault("it names no host"),
            Some(_) => match holdfast_store::check_url(text) {
                Ok(()) => Ok(Self::Postgres(text.to_owned())),
                Err(error) => Err(error.to_string()),
            },
            None => fault("it is neither postgres:// nor sqlite:"),
        }
    }

    /// The whole of it, for the store alone.
    pub(crate) fn expose(&self) -> String {
        match self {
            Self::Postgres(url) => url.clone(),
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
        }
    }

    pub(super) fn anchor(&mut self, directory: &Path) {
        if let Self::Sqlite(path) = self {
            *path = directory.join(&*path);
        }
    }
}

/// Without user and password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let shown = rest.split('?').next().unwrap_or_default();
                let shown = shown.rsplit_once('@').map_or(shown, |(_, host)| host);
                write!(f, "postgres://{shown}")
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for DatabaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_urls() {
        for good in
            ["http://127.0.0.1:8600", "https://ca.example/dir", "http://[::1]:80/", "https://x"]
        {
            assert!(WebUrl::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "ca.example",
            "ftp://x",
            "https://",
            "https://u:p@x/",
            "http://x:0/",
            "http://x:",
            "http://x:99999",
        ] {
            assert!(WebUrl::parse(bad).is_err(), "{bad}");
        }
        assert!(WebUrl::parse("http://[::1]:80").unwrap().is_loopback());
        assert!(!WebUrl::parse("http://10.0.0.1").unwrap().is_loopback());
    }

    #[test]
    fn passwords_of_databases_stay_hidden() {
        let url = DatabaseUrl::parse("postgres://holdfast:s3cr3t@db:5432/holdfast?password=s3cr3t")
            .unwrap();
        assert_eq!(
            format!("{url} {url:?}"),
            "postgres://db:5432/holdfast postgres://db:5432/holdfast"
        );
        let at = DatabaseUrl::parse("postgres://u:p@ss@db/x").unwrap();
        assert_eq!(at.to_string(), "postgres://db/x");
        let several = DatabaseUrl::parse("postgres://u:s3cr3t@one:5433,two/x").unwrap();
        assert_eq!(several.to_string(), "postgres://one:5433,two/x");
        let bad = DatabaseUrl::parse("postgres://u:s3cr3t@one,,two/x").unwrap_err();
        assert!(bad.contains("empty") && !bad.contains("s3cr3t"), "{bad}");
    }
}
