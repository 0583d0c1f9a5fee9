//! The names that can be ordered: DNS names in lower-case A-labels, perhaps with a wildcard in front.

use super::problem::{Kind, Problem};

/// Checks a name of an order and brings it into lower case.
pub(crate) fn parse(text: &str) -> Result<String, Problem> {
    let name = text.to_ascii_lowercase();
    let base = name.strip_prefix("*.").unwrap_or(&name);
    match reason_against(base) {
        None => Ok(name),
        Some(reason) => {
            let detail = format!("no certificate is issued for {text:?}: {reason}");
            Err(Problem::new(Kind::RejectedIdentifier, detail).about(text))
        }
    }
}

/// The name without its wildcard.
pub(crate) fn base(name: &str) -> &str {
    name.strip_prefix("*.").unwrap_or(name)
}

fn reason_against(name: &str) -> Option<&'static str> {
    let labels: Vec<&str> = name.split('.').collect();
    let reasons = [
        (name.is_empty(), "it is empty"),
        (name.len() > 253, "it is longer than 253 characters"),
        (name.parse::<std::net::IpAddr>().is_ok(), "it is an IP address"),
        (name.contains('*'), "a wildcard stands alone as the first label"),
        (labels.iter().any(|label| label.is_empty()), "it has an empty label"),
        (labels.iter().any(|label| label.len() > 63), "it has a label longer than 63 characters"),
        (!name.bytes().all(allowed), "it has characters other than a-z, 0-9, - and ."),
        (labels.iter().any(|label| hyphened(label)), "a label begins or ends with a hyphen"),
        (labels.len() < 2, "it has a single label"),
        (
            labels.last().is_some_and(|tld| !tld.bytes().any(|b| b.is_ascii_alphabetic())),
            "its last label is a number",
        ),
    ];
    reasons.into_iter().find(|(applies, _)| *applies).map(|(_, reason)| reason)
}

fn allowed(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
}

fn hyphened(label: &str) -> bool {
    label.starts_with('-') || label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_come_back_in_lower_case() {
        for (text, expected) in [
            ("Shop.TEST", "shop.test"),
            ("*.shop.test", "*.shop.test"),
            ("xn--bcher-kva.test", "xn--bcher-kva.test"),
        ] {
            assert_eq!(parse(text).unwrap(), expected);
        }
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        let long = format!("{}.test", "a".repeat(64));
        let cases = [
            ("", "empty"),
            ("test", "single label"),
            ("127.0.0.1", "IP address"),
            ("::1", "IP address"),
            ("shop.test.", "empty label"),
            ("a..test", "empty label"),
            ("*.*.test", "wildcard"),
            ("a.*.test", "wildcard"),
            ("a_b.test", "characters"),
            ("bücher.test", "characters"),
            ("-a.test", "hyphen"),
            ("a-.test", "hyphen"),
            (&long, "longer than 63"),
            ("a.1", "number"),
        ];
        for (text, reason) in cases {
            let problem = parse(text).unwrap_err();
            assert!(problem.detail().contains(reason), "{text:?}: {}", problem.detail());
        }
    }
}
