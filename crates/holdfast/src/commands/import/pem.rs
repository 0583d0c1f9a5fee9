//! PEM files as proxies have them: chain and key in one file, or the key beside it.

use std::path::{Path, PathBuf};

use holdfast_store::Secret;

/// Larger files than this hold something else.
const LARGEST: u64 = 256 * 1024;

/// A chain and its key, as they stand in the files.
pub(super) struct Bundle {
    pub(super) chain: String,
    pub(super) key: Secret,
}

/// Reads a file, and the key beside it where it has none itself.
pub(super) fn read(file: &Path) -> Result<Bundle, String> {
    let text = text(file)?;
    let (chain, key) = split(&text);
    if chain.is_empty() {
        return Err("holds no certificate".to_owned());
    }
    match key {
        Some(key) => Ok(Bundle { chain, key }),
        None => key_beside(file).map(|key| Bundle { chain, key }),
    }
}

/// Reads a chain and a key from files of their own; either may hold both.
pub(super) fn read_pair(chain_file: &Path, key_file: &Path) -> Result<Bundle, String> {
    let (chain, _) = split(&text(chain_file)?);
    if chain.is_empty() {
        return Err("holds no certificate".to_owned());
    }
    let key = key_in(key_file)?;
    let none = || format!("{} holds no private key", key_file.display());
    Ok(Bundle { chain, key: key.ok_or_else(none)? })
}

fn text(file: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let length = std::fs::metadata(file).map_err(cannot)?.len();
    if length > LARGEST {
        return Err(format!("has {length} bytes, more than any certificate"));
    }
    let bytes = std::fs::read(file).map_err(cannot)?;
    String::from_utf8(bytes).map_err(|_| "is not text; give PEM".to_owned())
}

fn key_in(file: &Path) -> Result<Option<Secret>, String> {
    let text = text(file).map_err(|why| format!("{} {why}", file.display()))?;
    Ok(split(&text).1)
}

/// Where tools put the key of a chain: HAProxy's two ways, and certbot's.
fn key_beside(file: &Path) -> Result<Secret, String> {
    let mut tried = Vec::new();
    for beside in keys_beside(file) {
        if beside.is_file()
            && let Some(key) = key_in(&beside)?
        {
            return Ok(key);
        }
        tried.push(beside.display().to_string());
    }
    Err(format!("holds no private key, and neither does {}", tried.join(" or ")))
}

fn keys_beside(file: &Path) -> Vec<PathBuf> {
    let mut appended = file.as_os_str().to_owned();
    appended.push(".key");
    let mut places = vec![PathBuf::from(appended), file.with_extension("key")];
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    if matches!(stem, Some("fullchain" | "cert")) {
        places.push(file.with_file_name("privkey.pem"));
    }
    places
}

/// The certificates in their order, and the first private key. What else is there (parameters, comments) is passed over.
pub(super) fn split(text: &str) -> (String, Option<Secret>) {
    let (mut chain, mut key) = (String::new(), None);
    let mut block: Option<(String, String)> = None;
    for line in text.lines() {
        let line = line.trim_end();
        if let Some(label) = boundary(line, "-----BEGIN ") {
            block = Some((label.to_owned(), String::new()));
        }
        let Some((label, body)) = &mut block else { continue };
        body.push_str(line);
        body.push('\n');
        let Some(end) = boundary(line, "-----END ") else { continue };
        match label.as_str() {
            // The end of something else: what was begun is nothing.
            label if label != end => {}
            "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE" => chain.push_str(body),
            label if label.ends_with("PRIVATE KEY") => {
                key.get_or_insert_with(|| Secret::from(std::mem::take(body)));
            }
            _ => {}
        }
        block = None;
    }
    (chain, key)
}

fn boundary<'a>(line: &'a str, begins: &str) -> Option<&'a str> {
    line.strip_prefix(begins)?.strip_suffix("-----")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(label: &str, body: &str) -> String {
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    }

    fn key_text(key: Option<Secret>) -> Option<String> {
        key.map(|key| String::from_utf8(key.expose().to_vec()).unwrap())
    }

    #[test]
    fn a_bundle_is_taken_apart_whatever_the_order() {
        let (one, two) = (block("CERTIFICATE", "AAAA"), block("CERTIFICATE", "BBBB"));
        let (key, parameters) = (block("EC PRIVATE KEY", "CCCC"), block("EC PARAMETERS", "DDDD"));
        for text in [
            format!("{one}{two}{parameters}{key}"),
            format!("{parameters}{key}subject=x\n\n{one}\n{two}"),
            format!("{one}{key}{two}").replace('\n', "\r\n"),
        ] {
            let (chain, found) = split(&text);
            assert_eq!(chain, format!("{one}{two}"));
            assert_eq!(key_text(found), Some(key.clone()));
        }
    }

    #[test]
    fn keys_are_looked_for_where_tools_put_them() {
        let places = |file: &str| {
            let places = keys_beside(Path::new(file)).into_iter();
            places.map(|place| place.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(places("/c/a.pem"), ["/c/a.pem.key", "/c/a.key"]);
        assert_eq!(
            places("/live/a/fullchain.pem"),
            ["/live/a/fullchain.pem.key", "/live/a/fullchain.key", "/live/a/privkey.pem"]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_taken_apart(text in "(-----(BEGIN|END) (CERTIFICATE|PRIVATE KEY|X)-----\n|[A-Z]{0,3}\n|.*){0,20}") {
            let (chain, key) = split(&text);
            let count = |begins: &str| chain.lines().filter(|line| boundary(line, begins).is_some()).count();
            prop_assert!(chain.is_empty() || chain.starts_with("-----BEGIN"));
            prop_assert_eq!(count("-----BEGIN "), count("-----END "));
            prop_assert!(key_text(key).is_none_or(|key| key.contains("PRIVATE KEY-----")));
        }

        #[test]
        fn what_was_put_together_comes_apart(bodies in prop::collection::vec("[A-Za-z0-9+/=]{1,64}", 1..5), key in "[A-Za-z0-9+/=]{1,64}") {
            let chain: String = bodies.iter().map(|body| block("CERTIFICATE", body)).collect();
            let key = block("PRIVATE KEY", &key);
            let (found, found_key) = split(&format!("{chain}{key}"));
            prop_assert_eq!(found, chain);
            prop_assert_eq!(key_text(found_key), Some(key));
        }
    }
}
