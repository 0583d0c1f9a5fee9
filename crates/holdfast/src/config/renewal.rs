//! `[renewal]`: when certificates are renewed.

use serde::Deserialize;

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Renewal {
    /// Days before the end of a 90-day certificate; others in proportion.
    pub(crate) before_days: u32,
    /// How often the sweep runs.
    pub(crate) sweep_seconds: u32,
}

impl Default for Renewal {
    fn default() -> Self {
        Self { before_days: 30, sweep_seconds: 300 }
    }
}
