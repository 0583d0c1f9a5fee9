//! What a HAProxy process holds: certificates, and the lists that say what they are served for.

use std::collections::{HashMap, HashSet};

use holdfast_model::Hostname;

use super::list::Loaded;
use super::runtime::Runtime;
use crate::{Error, Result};

/// The names of everything loaded.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) certificates: HashSet<String>,
    /// By the list's name.
    pub(super) lists: HashMap<String, Vec<Listed>>,
}

/// A line of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) file: String,
    pub(super) line: u64,
    /// For which names; empty: for those of the certificate.
    pub(super) filters: Vec<String>,
    /// Is it served otherwise than the bind line says?
    pub(super) has_options: bool,
}

/// A certificate, as HAProxy shows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) sha1: Option<[u8; 20]>,
    pub(super) names: Vec<String>,
}

impl Memory {
    pub(super) async fn read(runtime: &mut Runtime) -> Result<Self> {
        let certificates = runtime.ask("show ssl cert").await?;
        let mut memory = Self { certificates: names(&certificates), lists: HashMap::new() };
        for list in names(&runtime.ask("show ssl crt-list").await?) {
            let listed = listed(runtime, &list).await?;
            memory.lists.insert(list, listed);
        }
        Ok(memory)
    }

    /// The lists that a file stands in, with its lines there.
    pub(super) fn places(&self, file: &str) -> Vec<(&str, u64)> {
        let places = self.lists.iter().flat_map(|(list, lines)| {
            let lines = lines.iter().filter(|line| line.file == file);
            lines.map(|line| (list.as_str(), line.line))
        });
        places.collect()
    }

    /// One of its lists.
    pub(super) fn list(&self, list: &str) -> Loaded {
        let lines = self.lists.get(list).into_iter().flatten();
        Loaded { list: list.to_owned(), files: lines.map(|line| line.file.clone()).collect() }
    }
}

impl Shown {
    /// What an answer says; nothing where there is none, or an empty one.
    pub(super) fn of(said: &str) -> Self {
        let field = |name: &str| {
            said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::trim)
        };
        let alternatives = field("Subject Alternative Name").unwrap_or_default();
        let alternatives =
            alternatives.split(',').filter_map(|name| name.trim().strip_prefix("DNS:"));
        // HAProxy serves the common name too; what visitors cannot ask for is of no interest.
        let subject = field("Subject").unwrap_or_default();
        let common = subject.split('/').filter_map(|part| part.strip_prefix("CN="));
        let common = common.filter(|name| is_host(name.strip_prefix("*.").unwrap_or(name)));
        let mut names: Vec<_> = alternatives.chain(common).map(str::to_ascii_lowercase).collect();
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Self { sha1: field("SHA1 FingerPrint").and_then(from_hex), names }
    }
}

fn is_host(name: &str) -> bool {
    Hostname::parse_host(name).is_ok()
}

/// The lines of one list.
pub(super) async fn listed(runtime: &mut Runtime, list: &str) -> Result<Vec<Listed>> {
    let said = runtime.ask(&format!("show ssl crt-list -n {list}")).await?;
    Ok(said.lines().filter_map(line).collect())
}

/// Shows certificates by name.
pub(super) async fn show(runtime: &mut Runtime, files: &[String]) -> Result<Vec<Shown>> {
    let commands: Vec<_> = files.iter().map(|file| format!("show ssl cert {file}")).collect();
    let answers = runtime.ask_all(&commands).await?;
    Ok(answers.iter().map(|said| Shown::of(said)).collect())
}

/// Puts files on a list, for one name each; a result each. Doing it twice makes two lines: look first.
pub(super) async fn add(
    runtime: &mut Runtime,
    list: &str,
    files: &[(String, &str)],
) -> Result<Vec<Result<()>>> {
    let command = format!("add ssl crt-list {list}");
    let lines: Vec<_> = files.iter().map(|(file, name)| format!("{file} {name}\n")).collect();
    let answers = runtime.change_all(&command, &lines).await?;
    let result = |((file, _), said): (&(String, &str), String)| match said.lines().last() {
        Some(last) if last.trim() == "Success!" => Ok(()),
        _ => Err(Error::ProxyRefused { command: format!("{command} {file}"), said }),
    };
    Ok(files.iter().zip(answers).map(result).collect())
}

/// Takes lines off lists, and then the certificate itself away.
pub(super) async fn remove(runtime: &mut Runtime, memory: &Memory, file: &str) -> Result<()> {
    for (list, line) in memory.places(file) {
        let command = format!("del ssl crt-list {list} {file}:{line}");
        let said = runtime.change(&command).await?;
        if !said.contains("deleted in crtlist") {
            return Err(Error::ProxyRefused { command, said });
        }
    }
    if !memory.certificates.contains(file) {
        return Ok(());
    }
    let command = format!("del ssl cert {file}");
    let said = runtime.change(&command).await?;
    // A refusal says that it "can't be deleted!".
    if said.contains("' deleted!") { Ok(()) } else { Err(Error::ProxyRefused { command, said }) }
}

/// Lines that are names: no comments, no open transaction.
fn names(said: &str) -> HashSet<String> {
    let lines = said.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '*']))
        .map(str::to_owned)
        .collect()
}

fn line(text: &str) -> Option<Listed> {
    let (place, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (file, line) = place.rsplit_once(':')?;
    // Options stand in brackets before the names.
    let has_options = rest.trim_start().starts_with('[');
    let rest = match has_options {
        true => rest.split_once(']').map_or("", |(_, rest)| rest),
        false => rest,
    };
    let filters = rest.split_whitespace().map(str::to_owned).collect();
    Some(Listed { file: file.to_owned(), line: line.parse().ok()?, filters, has_options })
}

fn from_hex(text: &str) -> Option<[u8; 20]> {
    let mut bytes = [0; 20];
    if text.len() != 40 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_understood() {
        let with = |filters: &[&str]| Listed {
            file: "/d/a.pem".to_owned(),
            line: 3,
            filters: filters.iter().map(|&one| one.to_owned()).collect(),
            has_options: false,
        };
        assert_eq!(line("/d/a.pem:3 a.test b.test"), Some(with(&["a.test", "b.test"])));
        assert_eq!(line("/d/a.pem:3"), Some(with(&[])));
        let with_options = Listed { has_options: true, ..with(&["a.test"]) };
        assert_eq!(line("/d/a.pem:3 [alpn h2 verify none] a.test"), Some(with_options));
        assert_eq!(line("# /d/list"), None);
        let said = "# transaction\n*/d/a.pem\n# filename\n/d/a.pem\n/d/b.pem";
        assert_eq!(names(said), ["/d/a.pem", "/d/b.pem"].map(str::to_owned).into());
    }

    #[test]
    fn certificates_are_understood() {
        let said = "Filename: /d/a.pem\nStatus: Used\nSubject Alternative Name: DNS:A.test, DNS:b.test, IP Address:1.2.3.4\n\
            SHA1 FingerPrint: 3357858E76B94759FBA7BD60500337202CA88A1E\nSubject: /O=x/CN=other.test\n";
        let known = Shown::of(said);
        assert_eq!(known.names, ["a.test", "b.test", "other.test"]);
        for common in ["A.test", "My shop v1.2", "10.0.0.1"] {
            assert_eq!(Shown::of(&said.replace("other.test", common)).names, ["a.test", "b.test"]);
        }
        assert_eq!(known.sha1.map(|sha1| sha1[0]), Some(0x33));
        assert_eq!(Shown::of("Subject: /O=x/CN=Only.test").names, ["only.test"]);
        assert_eq!(Shown::of("Filename: /d/a.pem\nStatus: Empty"), Shown::default());
    }
}
