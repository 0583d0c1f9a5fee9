//! `[replicas]`: how replicas know of each other.

use serde::Deserialize;

use super::{is_name, problem::Findings};

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Replicas {
    /// This replica, as people know it.
    pub(crate) instance_id: Option<String>,
    /// How often a replica says that it lives.
    pub(crate) heartbeat_seconds: u32,
    /// When a silent one counts as gone.
    pub(crate) stale_seconds: u32,
    /// How often gone ones are forgotten.
    pub(crate) prune_seconds: u32,
}

impl Default for Replicas {
    fn default() -> Self {
        Self { instance_id: None, heartbeat_seconds: 10, stale_seconds: 30, prune_seconds: 300 }
    }
}

impl Replicas {
    pub(super) fn check(&self, findings: &mut Findings<'_>) {
        if !self.instance_id.as_deref().is_none_or(is_name) {
            findings.refuse_form("replicas.instance_id", "is no name");
        }
        let (beat, stale) = (self.heartbeat_seconds, self.stale_seconds);
        let least = u64::from(beat) * 2;
        findings.require(
            u64::from(stale) >= least,
            "replicas.stale_seconds",
            format_args!("is too short for a heartbeat each {beat} s: {stale} < 2 × {beat} = {least}, so one late heartbeat would count as a death"),
            format_args!("raise it to {least} or more"),
        );
    }
}
