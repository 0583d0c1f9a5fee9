//! One thing that was looked at.

use serde_json::{Value, json};

/// Is it as it should be?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Yes.
    Good,
    /// It works, and somebody should look at it.
    Doubtful,
    /// No.
    Wrong,
}

/// What was seen, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) what: &'static str,
    /// Is it as it should be?
    pub(super) verdict: Verdict,
    /// What was seen.
    pub(super) seen: String,
    /// What to do.
    pub(super) fix: Option<String>,
}

impl Finding {
    /// As it should be.
    pub(super) fn good(what: &'static str, seen: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Good, seen: seen.into(), fix: None }
    }

    /// Works, but.
    pub(super) fn doubtful(
        what: &'static str,
        seen: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { what, verdict: Verdict::Doubtful, seen: seen.into(), fix: Some(fix.into()) }
    }

    /// Not as it should be.
    pub(super) fn wrong(
        what: &'static str,
        seen: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { what, verdict: Verdict::Wrong, seen: seen.into(), fix: Some(fix.into()) }
    }

    pub(super) fn to_json(&self) -> Value {
        let verdict = match self.verdict {
            Verdict::Good => "good",
            Verdict::Doubtful => "doubtful",
            Verdict::Wrong => "wrong",
        };
        json!({ "what": self.what, "verdict": verdict, "seen": self.seen, "fix": self.fix })
    }
}
