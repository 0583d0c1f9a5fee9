//! What a newcomer needs, and nothing else: where things are, a command to try, a `curl` line that works as printed.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use super::{UpArgs, reachable};
use crate::{client::Found, output::Output};

/// Says it.
pub(super) fn say(args: &UpArgs, found: &Found, output: Output) {
    let style = output.style();
    let data = quoted(&args.data.display().to_string());
    let (http, https) = (reachable(args.http), reachable(args.https));
    let api = found.api.as_deref().unwrap_or_default();
    output.line(format!(
        "{} It is for development: it certifies whatever its own DNS zone says.",
        style.bold("Holdfast is up.")
    ));
    output.line("");
    let entry = |name: &str, place: &str, note: &str| {
        output.line(format!("  {name:<5} {place:<38} {}", style.dim(note)).trim_end());
    };
    entry("API", api, &format!("token in {data}/admin.token"));
    entry("edge", &format!("https://{https}"), &format!("and http://{http}"));
    entry("CA", &format!("{}/directory", found.ca), &format!("root in {data}/dev-ca.pem"));
    entry("DNS", &found.dns.to_string(), "every name under .test leads to the edge");
    entry("log", &format!("{data}/up.log"), "");
    output.line("");
    output.line("Try, in another terminal:");
    output.line("");
    let (program, option) = (program(), data_option(&args.data));
    output.line(format!("  {program} domain add shop.test --wait{option}"));
    output.line(format!(
        "  curl --cacert {data}/dev-ca.pem --resolve shop.test:{port}:{ip} https://shop.test:{port}/",
        port = https.port(),
        ip = bracketed(https.ip()),
    ));
    output.line("");
    output.line(style.dim("Ctrl-C ends it; the next `up` goes on where this one was."));
}

/// As `curl` takes an address among colons.
fn bracketed(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

/// Clients look in the default directory by themselves.
fn data_option(data: &Path) -> String {
    match data == Path::new("holdfast-data") {
        true => String::new(),
        false => format!(" --data {}", quoted(&data.display().to_string())),
    }
}

/// This program, as it can be typed from here.
fn program() -> String {
    let Ok(own) = std::env::current_exe() else { return "holdfast".to_owned() };
    let typed = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    // A bare word was found by the shell, and will be again.
    if typed.components().count() == 1 && typed.parent() == Some(Path::new("")) {
        return quoted(&typed.display().to_string());
    }
    let here = std::env::current_dir().unwrap_or_default();
    match own.strip_prefix(&here) {
        Ok(below) => quoted(&format!("./{}", below.display())),
        Err(_) => quoted(&own.display().to_string()),
    }
}

/// As a shell takes it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-:@+,".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_split_is_quoted() {
        assert_eq!(quoted("./target/release/holdfast"), "./target/release/holdfast");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn the_default_directory_needs_no_option() {
        assert_eq!(data_option(Path::new("holdfast-data")), "");
        assert_eq!(data_option(Path::new("/tmp/x y")), " --data '/tmp/x y'");
    }
}
