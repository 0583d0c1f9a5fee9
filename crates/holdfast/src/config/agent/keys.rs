//! Every key of an agent's file, in the form of [`keys`](crate::config::keys).

use crate::config::keys::Key;

const fn key(path: &'static str, must_be: &'static str) -> Key {
    Key { path, must_be, range: None, secret: false }
}

const fn number(path: &'static str, least: i64, most: i64, must_be: &'static str) -> Key {
    Key { path, must_be, range: Some(least..=most), secret: false }
}

const PEM: &str = "the path of a PEM file, relative to this file";
const ADDRESS: &str = "an IP address and a port, such as \"127.0.0.1:443\"";

/// The table.
pub(in crate::config) static KEYS: &[Key] = &[
    key(
        "agent.name",
        "a name of letters, digits, `.`, `_`, `-`, `:` and `@`, that the token was made for",
    ),
    key(
        "agent.server",
        "the URL of the control plane, or a list of URLs of its replicas, such as \"https://holdfast.example.net:8600\"",
    ),
    key(
        "agent.token_file",
        "the path of a file with the edge's token, as `holdfast token create --scope edge` prints it",
    ),
    key("agent.root_certificate", PEM),
    key("agent.client_certificate", PEM),
    key("agent.client_key", PEM),
    key("agent.proxy", "the URL of a plain HTTP proxy, such as \"http://proxy.example.net:3128\""),
    key("agent.allow_plaintext", "true or false"),
    key("agent.group", "a name of 1 to 128 characters without spaces"),
    key("agent.data", "the path of a directory that the agent may write, relative to this file"),
    key("agent.mode", "\"apply\" or \"observe\""),
    key("agent.listen", "an IP address and a port, such as \"127.0.0.1:8611\""),
    key(
        "haproxy.socket",
        "the absolute path of HAProxy's `stats socket`, or its IP address and port",
    ),
    key("haproxy.directory", "the path of a directory, without spaces, the same for HAProxy"),
    key(
        "haproxy.crt_list",
        "the path of the list on HAProxy's bind line, without spaces, as it stands there",
    ),
    key("haproxy.probe", ADDRESS),
    number(
        "haproxy.bufsize",
        4_096,
        16_777_216,
        "HAProxy's `tune.bufsize`, a whole number of bytes from 4096 to 16777216",
    ),
    key("files.directory", "the path of a directory, relative to this file"),
    key("files.layout", "\"combined\", \"separate\" or \"both\""),
    key(
        "files.mode",
        "\"0600\", or \"0640\" or \"0660\" for the group of a directory with the set-group-ID bit",
    ),
    key(
        "files.reload",
        "a list of a program and its arguments, such as [\"nginx\", \"-s\", \"reload\"]; no shell reads it",
    ),
    number("files.reload_seconds", 1, 3_600, "a whole number of seconds from 1 to 3600"),
    key("files.probe", ADDRESS),
];
