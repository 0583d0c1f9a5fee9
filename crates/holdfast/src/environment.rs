//! The environment, read once, here and nowhere else.

use std::collections::BTreeMap;

/// What the environment said when the process began.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// What begins an override of a configuration key.
    pub(crate) const PREFIX: &'static str = "HOLDFAST__";

    /// Reads it. Values that are not Unicode are of no use to us and left out.
    pub(crate) fn read() -> Self {
        let unicode = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(unicode.collect())
    }

    /// The value of a variable.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Overrides of configuration keys.
    pub(crate) fn overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(|(name, _)| name.starts_with(Self::PREFIX))
    }

    /// An environment of a test's own.
    #[cfg(test)]
    pub(crate) fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self::from_pairs(variables.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    /// An environment of a test's own.
    #[cfg(test)]
    pub(crate) fn from_pairs(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(variables.into_iter().collect())
    }
}
