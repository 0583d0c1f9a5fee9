//! Where certificates come from: each kind of source gives entries, and says of everything else why it is none.

use std::path::{Path, PathBuf};

use holdfast_acme::certificate;

use super::{
    crt_list, csv,
    entry::{Entry, Found, Life, Owner},
    pem::{self, Bundle},
};
use crate::failure::Failure;

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// A crt-list of HAProxy
    HaproxyCrtList,
    /// A directory of PEM files, as for HAProxy's `crt DIR`
    PemDir,
    /// A CSV file with the columns name, chain_file, key_file, tenant, resource, target, edge_group, labels
    Csv,
}

/// Which certificates a certificate of several kinds is kept as beside each other; the first that is there is taken.
const KINDS: [&str; 3] = ["ecdsa", "rsa", "dsa"];

/// Reads a source to its end. Nothing is sent yet.
pub(super) fn read(kind: Kind, path: &Path, base: Option<&Path>) -> Result<Found, Failure> {
    let base = base.map_or_else(|| beside(path), Path::to_owned);
    let found = match kind {
        Kind::HaproxyCrtList if path.is_dir() => directory(path)?,
        Kind::PemDir => directory(path)?,
        Kind::HaproxyCrtList => list(path, &base)?,
        Kind::Csv => rows(path, &base)?,
    };
    Ok(found.once())
}

fn beside(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    Failure::usage(format!(
        "{path} cannot be read ({error}); name a file or directory that is there."
    ))
}

fn list(path: &Path, base: &Path) -> Result<Found, Failure> {
    let mut found = Found::default();
    for line in crt_list::parse(&text(path)?) {
        match line {
            Ok(line) => take_line(&mut found, base, &line),
            Err((number, why)) => found.refuse(path, "", format!("line {number} {why}")),
        }
    }
    Ok(found)
}

fn take_line(found: &mut Found, base: &Path, line: &crt_list::Line) {
    let file = base.join(&line.file);
    if line.serves_nothing() {
        return found.skip(&file, "", "is served for nothing (`!*`)");
    }
    if file.is_dir() {
        return match pem_files(&file) {
            Ok(files) => files.iter().for_each(|file| take_file(found, file, line)),
            Err(error) => found.refuse(&file, "", format!("cannot be read: {error}")),
        };
    }
    take_file(found, &of_a_kind(file), line);
}

/// `a.pem` may be `a.pem.ecdsa` and `a.pem.rsa`, of which one is imported.
fn of_a_kind(file: PathBuf) -> PathBuf {
    if file.exists() {
        return file;
    }
    let named = |kind: &str| {
        let mut name = file.clone().into_os_string();
        name.push(".");
        name.push(kind);
        PathBuf::from(name)
    };
    KINDS.into_iter().map(named).find(|file| file.exists()).unwrap_or(file)
}

fn take_file(found: &mut Found, file: &Path, line: &crt_list::Line) {
    let bundle = match pem::read(file) {
        Ok(bundle) => bundle,
        Err(why) => return found.refuse(file, "", why),
    };
    let covered = match certificate::names(&bundle.chain) {
        Ok(covered) => covered,
        Err(error) => return found.refuse(file, "", error.to_string()),
    };
    let served = line.served(&covered);
    if served.names.is_empty() && served.wildcards.is_empty() {
        return found.skip(file, "", "is served for none of its names");
    }
    for wildcard in &served.wildcards {
        found.refuse(file, wildcard, "wildcard-unsupported: wildcards are not supported");
    }
    for name in served.names {
        found.entries.push(entry(file, &name, &bundle, Owner::default()));
    }
}

fn entry(file: &Path, name: &str, bundle: &Bundle, owner: Owner) -> Entry {
    Entry {
        file: file.to_owned(),
        name: name.to_owned(),
        chain: bundle.chain.clone(),
        key: bundle.key.clone(),
        owner,
        life: Life::default(),
        differs: None,
    }
}

fn directory(path: &Path) -> Result<Found, Failure> {
    let files = pem_files(path).map_err(|error| cannot_read(path, &error))?;
    let mut found = Found::default();
    let everything = crt_list::Line { number: 0, file: String::new(), filters: Vec::new() };
    for file in files {
        take_file(&mut found, &file, &everything);
    }
    Ok(found)
}

/// The files of a directory that may hold certificates, by name; of those in its subdirectories, certbot's full chains.
fn pem_files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for one in std::fs::read_dir(path)? {
        let one = one?.path();
        if is_hidden(&one) {
            continue;
        }
        let nested = one.join("fullchain.pem");
        match (one.is_dir(), nested.is_file()) {
            (true, true) => files.push(nested),
            (false, _) if holds_certificates(&one) => files.push(one),
            _ => {}
        }
    }
    files.sort();
    Ok(files)
}

fn is_hidden(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Keys and what else HAProxy keeps beside a certificate are not certificates.
fn holds_certificates(file: &Path) -> bool {
    const BESIDE: [&str; 5] = ["key", "ocsp", "sctl", "issuer", "dh"];
    let extension = file.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    let is_key = file.file_name().is_some_and(|name| name == "privkey.pem");
    !is_key && extension.is_none_or(|extension| !BESIDE.contains(&extension.as_str()))
}

fn rows(path: &Path, base: &Path) -> Result<Found, Failure> {
    let rows = csv::parse(&text(path)?).map_err(|why| {
        Failure::usage(format!(
            "{} {why}; see the moving-in guide for the columns.",
            path.display()
        ))
    })?;
    let mut found = Found::default();
    for row in rows {
        match row {
            Ok(row) => take_row(&mut found, base, row),
            Err((number, why)) => found.refuse(path, "", format!("line {number} {why}")),
        }
    }
    Ok(found)
}

fn take_row(found: &mut Found, base: &Path, row: csv::Row) {
    let file = base.join(&row.chain_file);
    let bundle = match &row.key_file {
        Some(key) => pem::read_pair(&file, &base.join(key)),
        None => pem::read(&file),
    };
    match bundle {
        Ok(bundle) => found.entries.push(entry(&file, &row.name, &bundle, row.owner)),
        Err(why) => found.refuse(&file, &row.name, why),
    }
}
