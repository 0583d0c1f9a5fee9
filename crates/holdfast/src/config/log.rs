//! `[log]`: how much is said, and in what form.

use serde::Deserialize;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::problem::Findings;

/// In what form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// How much: a level, or directives per module.
    pub(crate) level: String,
    /// In what form.
    pub(crate) format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

impl Log {
    /// The level as a filter; `None` when it is no level.
    pub(crate) fn filter(&self) -> Option<EnvFilter> {
        // The filter's own parser takes any word for the name of a module.
        let known = self.level.split(',').all(|directive| names_level(directive.trim()));
        let mut filter = known.then(|| EnvFilter::try_new(&self.level).ok()).flatten()?;
        // PostgreSQL's notices are about migrations that were applied before.
        if !self.level.contains("sqlx") {
            filter = filter.add_directive("sqlx::postgres::notice=warn".parse().ok()?);
        }
        Some(filter)
    }

    pub(super) fn check(&self, findings: &mut Findings<'_>) {
        if self.filter().is_none() {
            findings.refuse_form("log.level", "is no level");
        }
    }
}

fn names_level(directive: &str) -> bool {
    let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
    !level.is_empty() && level.parse::<LevelFilter>().is_ok()
}
