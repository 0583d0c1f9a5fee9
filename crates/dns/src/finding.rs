//! The result of a look, to be kept and shown.

use holdfast_model::{Check, Note};
use serde::{Deserialize, Serialize};

use crate::{Expectation, Seen, Verdict, detail, judge};

/// What was expected of a name, what was seen, and what follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Whether the name is pointed at us.
    pub verdict: Verdict,
    /// What was expected.
    pub expected: Expectation,
    /// What was seen.
    pub seen: Seen,
}

impl Finding {
    /// Judges what was seen.
    #[must_use]
    pub fn new(expected: Expectation, seen: Seen) -> Self {
        Self { verdict: judge(&expected, &seen), expected, seen }
    }

    /// Why the name is not pointed at us: a stable code, and a sentence on what was expected and seen.
    #[must_use]
    pub fn note(&self) -> Option<Note> {
        match self.verdict {
            Verdict::Pointed { .. } => None,
            Verdict::NotPointed(cause) => {
                Some(Note::new(cause.code(), detail::sentence(&self.expected, &self.seen, cause)))
            }
        }
    }

    /// The look as one of the checks of `explain`.
    #[must_use]
    pub fn check(&self) -> Check {
        Check {
            name: "dns".to_owned(),
            ok: self.verdict.is_pointed(),
            expected: self.expected.to_string(),
            seen: detail::summary(&self.seen),
        }
    }
}
