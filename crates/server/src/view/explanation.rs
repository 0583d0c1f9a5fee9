//! Why a domain stands where it stands.

use holdfast_model::{Check, Explanation, Timestamp, Who};
use serde::Serialize;
use utoipa::ToSchema;

use crate::openapi::WhoName;

/// One thing that was looked at.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Check)]
pub(crate) struct CheckView {
    /// What was looked at: `dns`, `ca`, `edge`.
    name: String,
    /// Is it as it should be?
    ok: bool,
    /// What was expected.
    expected: String,
    /// What was seen.
    seen: String,
}

impl From<Check> for CheckView {
    fn from(Check { name, ok, expected, seen }: Check) -> Self {
        Self { name, ok, expected, seen }
    }
}

/// Why a domain stands where it stands, and what to do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(crate) struct ExplanationView {
    /// One sentence: how it stands.
    summary: String,
    /// Stable, for programs.
    cause: String,
    /// One sentence: what to do.
    fix: String,
    /// Who must do it.
    #[schema(value_type = WhoName)]
    who: Who,
    /// When the next attempt is, if one is planned.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    /// What was looked at.
    checks: Vec<CheckView>,
}

impl From<Explanation> for ExplanationView {
    fn from(explanation: Explanation) -> Self {
        let Explanation { summary, cause, fix, who, next_attempt_at, checks } = explanation;
        let checks = checks.into_iter().map(CheckView::from).collect();
        Self { summary, cause, fix, who, next_attempt_at, checks }
    }
}
