//! A name that can be a custom domain, made once at the edge: lower-case A-labels, no trailing dot.

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc};

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A fully qualified host name as lower-case A-labels without a trailing dot.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hostname(Arc<str>);

/// Why a text is not a host name we can take. Each says what was given and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostnameError {
    /// Nothing there.
    #[error("the name is empty; give a host name such as shop.example.com")]
    Empty,
    /// An address, not a name.
    #[error("`{0}` is an IP address; give the host name that points to it")]
    IpLiteral(String),
    /// One label.
    #[error("`{0}` has a single label; give a full name such as {0}.example.com")]
    SingleLabel(String),
    /// Over 253 bytes, or a label over 63.
    #[error("`{0}` is too long: a name has at most 253 characters and each label at most 63")]
    TooLong(String),
    /// Characters or hyphens that no host name has.
    #[error(
        "`{0}` is not a host name: labels have letters, digits and inner hyphens; give it without scheme, port or path"
    )]
    Malformed(String),
    /// `co.uk`.
    #[error("`{0}` is a public suffix, under which others register names; give a name below it")]
    PublicSuffix(String),
    /// `*.example.com`.
    #[error("`{0}` is a wildcard, and wildcards are not supported; give each host name by itself")]
    Wildcard(String),
    /// The operator's own.
    #[error(
        "`{0}` is, or is below, the edge's own name `{1}`; a customer's name must point to it, not be it"
    )]
    OwnTarget(String, String),
}

impl HostnameError {
    /// The API's code for it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Wildcard(_) => "wildcard-unsupported",
            _ => "invalid-name",
        }
    }
}

impl Hostname {
    /// Takes what a person typed: any case, Unicode, a trailing dot.
    ///
    /// # Errors
    /// Says which rule the text breaks and how to mend it.
    pub fn parse(text: &str) -> Result<Self, HostnameError> {
        let name = Self::parse_host(text)?;
        if psl::suffix_str(&name.0).is_some_and(|suffix| suffix.len() == name.0.len()) {
            return Err(HostnameError::PublicSuffix(shown(text)));
        }
        Ok(name)
    }

    /// The part of it that somebody registered: one label below the public suffix; the whole name where there is none.
    #[must_use]
    pub fn registered_domain(&self) -> &str {
        psl::domain_str(&self.0).unwrap_or(&self.0)
    }

    /// Takes any host name, also one that is itself a public suffix: what a CNAME may point to.
    ///
    /// # Errors
    /// Says which rule the text breaks and how to mend it.
    pub fn parse_host(text: &str) -> Result<Self, HostnameError> {
        let trimmed = text.strip_suffix('.').unwrap_or(text);
        if trimmed.is_empty() {
            return Err(HostnameError::Empty);
        }
        // Mapping is costly and cannot shorten by this much: refuse what is hopeless first.
        if text.len() > 4 * 253 {
            return Err(HostnameError::TooLong(shown(text)));
        }
        if is_address(trimmed) {
            return Err(HostnameError::IpLiteral(shown(text)));
        }
        if let Some(rest) = trimmed.strip_prefix("*.") {
            return Err(match Self::parse_host(rest) {
                Ok(_) | Err(HostnameError::SingleLabel(_)) => HostnameError::Wildcard(shown(text)),
                Err(_) => HostnameError::Malformed(shown(text)),
            });
        }
        let ascii = Self::to_ascii(trimmed).ok_or_else(|| HostnameError::Malformed(shown(text)))?;
        Self::check(&ascii, text)?;
        Ok(Self(ascii.into()))
    }

    fn to_ascii(text: &str) -> Option<String> {
        Uts46::new()
            .to_ascii(
                text.as_bytes(),
                AsciiDenyList::STD3,
                Hyphens::CheckFirstLast,
                DnsLength::Ignore,
            )
            .ok()
            .map(std::borrow::Cow::into_owned)
    }

    fn check(ascii: &str, text: &str) -> Result<(), HostnameError> {
        let malformed = || HostnameError::Malformed(shown(text));
        if ascii.len() > 253 || ascii.split('.').any(|label| label.len() > 63) {
            return Err(HostnameError::TooLong(shown(text)));
        }
        if ascii.split('.').any(|label| label.is_empty() || !is_label(label)) {
            return Err(malformed());
        }
        // Full-width digits and the like can map to an address only now.
        if is_address(ascii) {
            return Err(HostnameError::IpLiteral(shown(text)));
        }
        let Some((_, last)) = ascii.rsplit_once('.') else {
            return Err(HostnameError::SingleLabel(shown(text)));
        };
        // No top-level domain is a number, and "1.2.3" is someone's idea of an address.
        if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
            return Err(HostnameError::IpLiteral(shown(text)));
        }
        Ok(())
    }

    /// Refuses the operator's own targets and what lies below them.
    ///
    /// # Errors
    /// Names the target it collides with.
    pub fn outside(self, targets: &[Self]) -> Result<Self, HostnameError> {
        match targets.iter().find(|target| self.is_at_or_below(target)) {
            Some(target) => Err(HostnameError::OwnTarget(self.to_string(), target.to_string())),
            None => Ok(self),
        }
    }

    /// Is it `other`, or below it?
    #[must_use]
    pub fn is_at_or_below(&self, other: &Self) -> bool {
        self.0
            .strip_suffix(other.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// A label in front: how a unique target is made.
    ///
    /// # Errors
    /// When the result is no host name.
    pub fn below(&self, label: &str) -> Result<Self, HostnameError> {
        Self::parse_host(&format!("{label}.{self}"))
    }

    /// The A-labels.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As a person would write it.
    #[must_use]
    pub fn to_unicode(&self) -> String {
        let (text, _) =
            Uts46::new().to_unicode(self.0.as_bytes(), AsciiDenyList::STD3, Hyphens::Allow);
        text.into_owned()
    }
}

fn is_label(label: &str) -> bool {
    !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_address(text: &str) -> bool {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok()
}

/// What was given, cut short: it goes into a message.
fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(80).is_some() {
        shown.push('…');
    }
    shown
}

impl AsRef<str> for Hostname {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for Hostname {
    type Err = HostnameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for Hostname {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Hostname {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_host(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let seen = match Hostname::parse(text) {
            Ok(name) => name.to_string(),
            Err(error) => format!("{error:?}").split('(').next().unwrap_or_default().to_owned(),
        };
        assert_eq!(seen, expected, "for {text:?}");
    }

    #[test]
    fn takes_what_people_type() {
        check("shop.example.com", "shop.example.com");
        check("Shop.EXAMPLE.com.", "shop.example.com");
        check("bücher.example", "xn--bcher-kva.example");
        check("BÜCHER.Example", "xn--bcher-kva.example");
        check("xn--bcher-kva.example", "xn--bcher-kva.example");
        check("a-b.c9.example.co.uk", "a-b.c9.example.co.uk");
        check("shop.test", "shop.test");
        check("日本語。example。com", "xn--wgv71a119e.example.com");
    }

    #[test]
    fn refuses_what_is_no_custom_domain() {
        check("", "Empty");
        check(".", "Empty");
        check("localhost", "SingleLabel");
        check("com", "SingleLabel");
        check("co.uk", "PublicSuffix");
        check("127.0.0.1", "IpLiteral");
        check("::1", "IpLiteral");
        check("[::1]", "IpLiteral");
        check("１２７.0.0.1", "IpLiteral");
        check("1.2.3", "IpLiteral");
        check("0x7f.0x1", "IpLiteral");
        check("*.example.com", "Wildcard");
        check("*.test", "Wildcard");
        check("*.*.example.com", "Malformed");
        check("a.*.example.com", "Malformed");
        check("a..example.com", "Malformed");
        check(".example.com", "Malformed");
        check("example.com..", "Malformed");
        check("-a.example.com", "Malformed");
        check("a-.example.com", "Malformed");
        check("a_b.example.com", "Malformed");
        check("a b.example.com", "Malformed");
        check("https://example.com/", "Malformed");
        check("example.com:443", "Malformed");
        check("exa\0mple.com", "Malformed");
        check("xn--\u{fffd}.com", "Malformed");
        check(&format!("{}.example.com", "a".repeat(64)), "TooLong");
        check(&format!("{}com", "a.".repeat(126)), "TooLong");
        check(&"a".repeat(10_000), "TooLong");
    }

    #[test]
    fn refuses_the_operators_own() {
        let target = Hostname::parse("edge.example.net").unwrap();
        let own =
            |text: &str| Hostname::parse(text).unwrap().outside(std::slice::from_ref(&target));
        assert!(own("edge.example.net").is_err());
        assert!(own("x.edge.example.net").is_err());
        assert!(own("myedge.example.net").is_ok());
    }

    proptest! {
        #[test]
        fn parsing_is_total_and_stable(text in any::<String>()) {
            if let Ok(name) = Hostname::parse(&text) {
                prop_assert_eq!(Hostname::parse(name.as_str()).unwrap(), name.clone());
                prop_assert!(name.as_str().len() <= 253 && name.as_str().contains('.'));
                prop_assert!(name.as_str().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.'));
            }
        }

        #[test]
        fn plausible_names_are_stable(text in "[a-zA-Z0-9ü*._-]{1,12}(\\.[a-zA-Z0-9é-]{1,12}){0,3}\\.?") {
            if let Ok(name) = Hostname::parse(&text) {
                let shouted = Hostname::parse(&text.to_ascii_uppercase()).unwrap();
                prop_assert_eq!(shouted, name.clone());
                prop_assert_eq!(Hostname::parse(&name.to_unicode()).unwrap(), name);
            }
        }
    }
}
