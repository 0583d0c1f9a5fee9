//! Every key there is: what it must be, within what bounds, and whether its value may be shown.
//!
//! Messages take their remedies from here, and a test holds this table against the sections themselves.

use std::ops::RangeInclusive;

/// What is known of one key.
#[derive(Debug)]
pub(super) struct Key {
    /// Section and key, with a dot between.
    pub(super) path: &'static str,
    /// Completes the sentence "it must be …".
    pub(super) must_be: &'static str,
    /// For numbers: the bounds.
    pub(super) range: Option<RangeInclusive<i64>>,
    /// Is the value never to be shown?
    pub(super) secret: bool,
}

const fn key(path: &'static str, must_be: &'static str) -> Key {
    Key { path, must_be, range: None, secret: false }
}

const fn secret(path: &'static str, must_be: &'static str) -> Key {
    Key { path, must_be, range: None, secret: true }
}

const fn number(path: &'static str, least: i64, most: i64, must_be: &'static str) -> Key {
    Key { path, must_be, range: Some(least..=most), secret: false }
}

const YES_NO: &str = "true or false";
const ADDRESS: &str = "an IP address and a port, such as \"127.0.0.1:8600\"";
const PEM: &str = "the path of a PEM file, relative to this file";

/// The table.
pub(super) static KEYS: &[Key] = &[
    key("server.listen", ADDRESS),
    key(
        "server.url",
        "how others reach this replica, such as \"https://holdfast.example.net:8600\"",
    ),
    key("server.role", "\"all\", \"api\" or \"worker\""),
    key("server.writes", "\"any\", \"forward\", \"redirect\" or \"reject\""),
    number("server.drain_seconds", 0, 3_600, "a whole number of seconds from 0 to 3600"),
    key("server.tls_certificate", PEM),
    key("server.tls_key", PEM),
    key("server.client_ca", PEM),
    key("server.root_certificate", PEM),
    secret(
        "database.url",
        "\"postgres://USER@HOST:PORT/NAME\" (several hosts: HOST:PORT,HOST:PORT) or \"sqlite:FILE\"",
    ),
    key("coordination.backend", "\"database\" or \"redis\""),
    secret(
        "coordination.url",
        "\"redis://HOST:PORT\", \"rediss://HOST:PORT\" or \"redis+sentinel://HOST:PORT,…/NAME\"",
    ),
    key("coordination.weak_store", YES_NO),
    key("coordination.root_certificate", PEM),
    key("coordination.resource_name", "a name of 1 to 128 characters without spaces"),
    number(
        "coordination.lease_duration_seconds",
        1,
        86_400,
        "a whole number of seconds from 1 to 86400",
    ),
    number(
        "coordination.renewal_interval_seconds",
        1,
        28_800,
        "a whole number of seconds from 1 to 28800",
    ),
    key("coordination.key_prefix", "a text of 1 to 128 characters without spaces"),
    key("coordination.enable_detailed_logging", YES_NO),
    key("replicas.instance_id", "a name of 1 to 128 characters without spaces"),
    number("replicas.heartbeat_seconds", 1, 3_600, "a whole number of seconds from 1 to 3600"),
    number("replicas.stale_seconds", 1, 86_400, "a whole number of seconds from 1 to 86400"),
    number("replicas.prune_seconds", 1, 604_800, "a whole number of seconds from 1 to 604800"),
    key(
        "acme.directory",
        "the URL of the CA's ACME directory, such as \"https://acme-v02.api.letsencrypt.org/directory\"",
    ),
    key("acme.name", "what the CA is called in commands"),
    key("acme.root_certificate", PEM),
    key("acme.issuer_roots", PEM),
    key("acme.email", "an e-mail address the CA may write to"),
    key("acme.agree_terms", YES_NO),
    number("acme.max_new_orders_per_3h", 1, 10_000_000, "a whole number from 1 to 10000000"),
    number("acme.max_orders_in_flight", 1, 100_000, "a whole number from 1 to 100000"),
    key("acme.key_type", "\"ecdsa-p256\" or \"rsa-2048\""),
    key("acme.profile", "the name of a profile the CA offers"),
    key("acme.eab_key_id", "the key id the CA gave for external account binding"),
    secret("acme.eab_hmac_key", "the base64url HMAC key the CA gave for external account binding"),
    key("dns.targets", "a list of host names, such as [\"edge.example.net\"]"),
    key("dns.addresses", "a list of IP addresses, such as [\"192.0.2.1\"]"),
    key("dns.unique_target", YES_NO),
    key(
        "dns.resolvers",
        "a list of addresses of DNS servers, such as [\"127.0.0.1:53\"]; leave it out for the system's",
    ),
    number(
        "dns.http_proof_port",
        0,
        65_535,
        "the port names are asked on for proof that they reach the edge, 0 for never",
    ),
    number("provisioning.claim_seconds", 1, 3_600, "a whole number of seconds from 1 to 3600"),
    number("provisioning.concurrency", 1, 10_000, "a whole number from 1 to 10000"),
    number("provisioning.dns_attempts", 1, 1_000, "a whole number from 1 to 1000"),
    number(
        "provisioning.dns_timeout_seconds",
        1,
        604_800,
        "a whole number of seconds from 1 to 604800",
    ),
    number(
        "renewal.before_days",
        1,
        80,
        "a whole number of days from 1 to 80, of a 90-day certificate",
    ),
    number("renewal.sweep_seconds", 1, 86_400, "a whole number of seconds from 1 to 86400"),
    number("retention.history_days", 90, 36_500, "a whole number of days from 90 to 36500"),
    number("retention.removed_days", 1, 36_500, "a whole number of days from 1 to 36500"),
    key("edge.mode", "\"agents\", \"builtin\" or \"none\""),
    key("edge.name", "a name of 1 to 128 characters without spaces"),
    key("edge.http", ADDRESS),
    key("edge.https", ADDRESS),
    key("edge.group", "a name of 1 to 128 characters without spaces"),
    key("edge.pull", "an IP address and a port for Caddy to ask at, such as \"127.0.0.1:8610\""),
    number(
        "edge.redirect_port",
        1,
        65_535,
        "the port at which visitors reach HTTPS, from 1 to 65535, such as 443",
    ),
    key("edge.upstream", "the URL of what visitors are to see, such as \"http://127.0.0.1:3000\""),
    key("security.master_key_file", "the path of a file, relative to this file"),
    secret("security.master_key", "32 bytes in base64, as `openssl rand -base64 32` prints them"),
    secret("security.admin_token", "a text of at least 16 characters without spaces"),
    key("security.admin_token_file", "the path of a file, relative to this file"),
    key("security.allow_plaintext", YES_NO),
    key(
        "log.level",
        "\"error\", \"warn\", \"info\", \"debug\", \"trace\", or directives such as \"info,holdfast_engine=debug\"",
    ),
    key("log.format", "\"text\" or \"json\""),
];

/// What is known of a key; an item of a list counts as its list.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    let listed = path.rsplit_once('.').filter(|(_, last)| last.parse::<usize>().is_ok());
    let path = listed.map_or(path, |(list, _)| list);
    KEYS.iter().chain(super::agent::KEYS).find(|key| key.path == path)
}

/// The known word that a mistyped one is nearest to, if it is near.
pub(super) fn nearest(typed: &str, known: &[&'static str]) -> Option<&'static str> {
    let best = known.iter().min_by_key(|word| distance(typed, word))?;
    (distance(typed, best) <= typed.len().clamp(3, 9) / 3).then_some(best)
}

/// How many letters must be changed, added or left out to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, b) in row.iter_mut().skip(1).zip(to.chars()) {
            left = (diagonal + usize::from(a != b)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, left);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_nonsense_none() {
        assert_eq!(nearest("lissten", &["listen", "url"]), Some("listen"));
        assert_eq!(nearest("concurency", &["concurrency"]), Some("concurrency"));
        assert_eq!(nearest("banana", &["listen", "url"]), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
