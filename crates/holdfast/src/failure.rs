//! How a command ends when it does not succeed: one sentence for people, one number for scripts.

use std::{fmt, process::ExitCode};

use crate::config::Problems;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The thing asked for failed.
    Failed(String),
    /// It was asked for in a wrong way.
    Usage(String),
    /// The server could not be reached.
    Unreachable(String),
    /// Going on would do harm, and so would ending in order.
    AtOnce(String),
}

impl Failure {
    /// The thing asked for failed.
    pub(crate) fn failed(what: impl fmt::Display) -> Self {
        Self::Failed(what.to_string())
    }

    /// It was asked for in a wrong way.
    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self::Usage(what.to_string())
    }

    /// The server could not be reached.
    pub(crate) fn unreachable(what: impl fmt::Display) -> Self {
        Self::Unreachable(what.to_string())
    }

    /// What scripts see.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed(_) | Self::AtOnce(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Failed(what) | Self::Usage(what) | Self::Unreachable(what) | Self::AtOnce(what)) =
            self;
        f.write_str(&begun_large(what))
    }
}

/// A sentence begins with a capital letter, unless its first word is a name, a path or an address.
fn begun_large(sentence: &str) -> String {
    let first = sentence.split(' ').next().unwrap_or_default();
    let mut letters = sentence.chars();
    match letters.next() {
        Some(letter) if first.chars().all(|c| c.is_ascii_lowercase()) => {
            letter.to_ascii_uppercase().to_string() + letters.as_str()
        }
        _ => sentence.to_owned(),
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::usage(problems)
    }
}

/// The whole chain, outermost first.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(chain(error.as_ref()))
    }
}

/// An error and what caused it, in one line. Causes that only repeat what was said are left out.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_begin_large_and_names_stay_as_they_are() {
        assert_eq!(Failure::failed("the edge cannot listen").to_string(), "The edge cannot listen");
        for text in
            ["shop.test is in use", "http://x cannot be reached", "`a b` is none", "", "Ä b"]
        {
            assert_eq!(Failure::failed(text).to_string(), text);
        }
    }
}
