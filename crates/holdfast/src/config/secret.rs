//! A text that is read from a configuration and never shown.

use std::fmt;

use holdfast_store::Secret;
use serde::{Deserialize, Deserializer};

/// A secret, as text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretText(Secret);

impl SecretText {
    /// Takes a text over.
    pub(crate) fn new(text: String) -> Self {
        Self(Secret::from(text))
    }

    /// The text, for the one place that needs it.
    pub(crate) fn expose(&self) -> &str {
        // It was made from a string.
        std::str::from_utf8(self.0.expose()).unwrap_or_default()
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}
