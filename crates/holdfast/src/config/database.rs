//! `[database]`: where everything is remembered.

use serde::Deserialize;

use super::url::DatabaseUrl;

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Database {
    /// Which one.
    pub(crate) url: DatabaseUrl,
}
