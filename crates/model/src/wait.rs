//! What a CA's "not now" is about. Only that waits, and for a bounded time: a CA may ask for anything.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Hostname;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

macro_rules! scopes {
    ($($name:ident = $text:literal, $unsaid:expr, $longest:expr, $doc:literal;)*) => {
        /// What must wait.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum WaitScope { $(#[doc = $doc] $name,)* }

        impl WaitScope {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As stored and shown.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// How long to wait where the CA does not say, and the longest wait it is granted.
            const fn limits(self) -> (Duration, Duration) {
                match self {
                    $(Self::$name => (Duration::from_secs($unsaid), Duration::from_secs($longest)),)*
                }
            }
        }
    };
}

scopes! {
    Account = "account", MINUTE, HOUR, "Every order of the account.";
    Server = "server", MINUTE, HOUR, "Every request from this replica: the CA is busy, or limits our address.";
    RegisteredDomain = "registered-domain", HOUR, 7 * 24 * HOUR, "Every name below one registered domain.";
    ExactSet = "exact-set", HOUR, 7 * 24 * HOUR, "Another certificate for exactly this name.";
    Name = "name", HOUR, 7 * 24 * HOUR, "This name.";
    PausedName = "paused-name", 6 * HOUR, 7 * 24 * HOUR, "This name, until a person unpauses it at the CA.";
    Unknown = "unknown", 10 * MINUTE, 7 * 24 * HOUR, "This name, for a reason that the CA does not tell in words we know.";
}

/// Less is no wait: the same request would be refused again and again.
const SHORTEST: Duration = Duration::from_secs(1);

impl WaitScope {
    /// From what is stored; `None` for what a newer release wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == text)
    }

    /// How long what is in scope waits, after the CA asked for this.
    #[must_use]
    pub fn bounded(self, asked: Option<Duration>) -> Duration {
        let (unsaid, longest) = self.limits();
        asked.unwrap_or(unsaid).clamp(SHORTEST, longest)
    }

    /// Does it concern more than names: everything that would be asked?
    #[must_use]
    pub const fn is_everybody(self) -> bool {
        matches!(self, Self::Account | Self::Server)
    }

    /// Under which key the wait of this name is kept.
    #[must_use]
    pub fn key(self, name: &Hostname) -> &str {
        match self {
            Self::RegisteredDomain => name.registered_domain(),
            _ => name.as_str(),
        }
    }
}

/// The first web address in a CA's words: where a person can do what it asks for.
#[must_use]
pub fn url_in(words: &str) -> Option<&str> {
    let from = words.find("https://")?;
    let url =
        words.get(from..)?.split(|c: char| c.is_whitespace() || "\"'<>()".contains(c)).next()?;
    Some(url.trim_end_matches(['.', ',', ';'])).filter(|url| url.len() > "https://".len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_stored_is_read_again() {
        for scope in WaitScope::ALL {
            assert_eq!(WaitScope::parse(scope.as_str()), Some(*scope));
        }
        assert_eq!(WaitScope::parse("galaxy"), None);
    }

    #[test]
    fn no_retry_after_keeps_anything_waiting_for_longer_than_its_scope_allows() {
        let year = Some(Duration::from_secs(365 * 24 * HOUR));
        for scope in WaitScope::ALL {
            let hours = scope.bounded(year).as_secs() / HOUR;
            assert_eq!(hours, if scope.is_everybody() { 1 } else { 7 * 24 }, "{scope:?}");
            assert_eq!(scope.bounded(Some(Duration::ZERO)), SHORTEST);
        }
        let said = Some(Duration::from_secs(720));
        assert_eq!(WaitScope::Name.bounded(said), Duration::from_secs(720));
    }

    #[test]
    fn names_wait_together_below_their_registered_domain_alone() {
        let name = Hostname::parse("a.b.example.co.uk").unwrap();
        assert_eq!(WaitScope::RegisteredDomain.key(&name), "example.co.uk");
        assert_eq!(WaitScope::Name.key(&name), "a.b.example.co.uk");
        let shared = Hostname::parse("shop.github.io").unwrap();
        assert_eq!(WaitScope::RegisteredDomain.key(&shared), "shop.github.io");
    }

    #[test]
    fn the_address_in_the_cas_words_is_found() {
        let words = "Your account is paused. Please visit: https://portal.example/unpause?jwt=a.b.c (rateLimited)";
        assert_eq!(url_in(words), Some("https://portal.example/unpause?jwt=a.b.c"));
        assert_eq!(url_in("see https://ca.example/limits."), Some("https://ca.example/limits"));
        assert_eq!(url_in("nothing, nor https:// alone"), None);
    }

    proptest! {
        #[test]
        fn any_words_may_be_sent(words in any::<String>()) {
            if let Some(url) = url_in(&words) {
                prop_assert!(words.contains(url) && url.starts_with("https://"));
            }
        }
    }
}
