//! A URL of several hosts, taken apart: `postgres://USER@H1:5432,H2:5433/NAME`.

use sqlx::postgres::PgConnectOptions;

use crate::error::Error;

/// One host of a URL.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// As `HOST:PORT`, for people.
    pub(super) name: String,
    pub(super) options: PgConnectOptions,
}

/// Its hosts, in the order written. No part of an error holds what may be a password.
pub(super) fn hosts(url: &str) -> Result<Vec<Host>, Error> {
    singles(url)?.iter().map(|single| host(single)).collect()
}

/// A URL of one host for each of its hosts.
fn singles(url: &str) -> Result<Vec<String>, Error> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let rest = rest.ok_or_else(|| fault("it does not begin with postgres://"))?;
    let end = authority_end(rest);
    let (authority, tail) = rest.split_at(end);
    let (user, places) = authority.rsplit_once('@').unwrap_or(("", authority));
    let at = if authority.contains('@') { "@" } else { "" };
    let tail = without_target(tail)?;
    let places: Vec<&str> = places.split(',').collect();
    if places.len() > 1 && places.iter().any(|place| place.is_empty()) {
        return Err(fault("a host between two commas is empty"));
    }
    Ok(places.iter().map(|place| format!("postgres://{user}{at}{place}{tail}")).collect())
}

/// Where user and hosts end. In a password these characters are written as `%2F`, `%3F` and `%23`.
fn authority_end(rest: &str) -> usize {
    rest.find(['/', '?', '#']).unwrap_or(rest.len())
}

/// libpq's `target_session_attrs` says what is done here anyway; what asks for something else is refused.
fn without_target(tail: &str) -> Result<String, Error> {
    let Some((path, query)) = tail.split_once('?') else { return Ok(tail.to_owned()) };
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("target_session_attrs", "read-write" | "primary")) => {}
            Some(("target_session_attrs", _)) => {
                return Err(fault("target_session_attrs can only be read-write: leave it out"));
            }
            Some(("host" | "port", value)) if value.contains(',') || value.contains("%2C") => {
                return Err(fault(
                    "several hosts stand before the path, as in postgres://USER@H1:5432,H2:5432/NAME",
                ));
            }
            _ => kept.push(pair),
        }
    }
    let mark = if kept.is_empty() { "" } else { "?" };
    Ok(format!("{path}{mark}{}", kept.join("&")))
}

fn host(single: &str) -> Result<Host, Error> {
    let options: PgConnectOptions =
        single.parse().map_err(|_| fault("a host, port or parameter in it is not valid"))?;
    // A pooler refuses startup parameters it does not know; numbers are read in binary anyway.
    let options = options.extra_float_digits(None);
    let name = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    Ok(Host { name, options })
}

fn fault(text: &str) -> Error {
    Error::Address(format!("the PostgreSQL URL cannot be used: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(url: &str) -> Vec<String> {
        hosts(url).unwrap().into_iter().map(|host| host.name).collect()
    }

    #[test]
    fn several_hosts_share_all_else() {
        let hosts =
            hosts("postgres://me:p%2Cw@one:5433,two,[::1]:6000/db?sslmode=disable").unwrap();
        let seen: Vec<_> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(seen, ["one:5433", "two:5432", "[::1]:6000"]);
        for host in &hosts {
            assert_eq!(host.options.get_username(), "me");
            assert_eq!(host.options.get_database(), Some("db"));
        }
    }

    #[test]
    fn one_host_is_as_ever() {
        assert_eq!(names("postgresql://db.internal/holdfast"), ["db.internal:5432"]);
        assert_eq!(names("postgres:///db?host=/run/postgresql"), ["/run/postgresql"]);
    }

    #[test]
    fn what_libpq_wants_said_is_done_anyway() {
        let url = "postgres://u@a:1,b:2/db?target_session_attrs=read-write&sslmode=disable";
        assert_eq!(names(url), ["a:1", "b:2"]);
        let error = hosts("postgres://u@a,b/db?target_session_attrs=any").unwrap_err();
        assert!(error.to_string().contains("read-write"), "{error}");
    }

    #[test]
    fn errors_hold_no_password() {
        for bad in [
            "mysql://u:s3cr3t@a/db",
            "postgres://u:s3cr3t@a,,b/db",
            "postgres://u:s3cr3t@a:99999/db",
            "postgres://u:s3cr3t@/db?host=a,b",
            "postgres://u@a/db?sslmode=s3cr3t",
        ] {
            let error = hosts(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error:?}");
        }
    }
}
