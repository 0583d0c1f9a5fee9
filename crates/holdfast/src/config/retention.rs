//! `[retention]`: how long what is over is kept.

use serde::Deserialize;

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retention {
    /// Days that a domain's transitions are kept.
    pub(crate) history_days: u32,
    /// Days that a removed domain is kept, with its history.
    pub(crate) removed_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self { history_days: 400, removed_days: 400 }
    }
}
