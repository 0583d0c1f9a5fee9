//! `[coordination]`: leases between replicas.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{anchored, is_name, problem::Findings, secret::SecretText, url::DatabaseUrl};

/// Where leases are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Backend {
    /// In the same database.
    Database,
    /// In Redis.
    Redis,
}

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Coordination {
    /// Where leases are kept.
    pub(crate) backend: Backend,
    /// Which Redis.
    pub(crate) url: Option<SecretText>,
    /// Is a store that can lose acknowledged leases good enough?
    pub(crate) weak_store: bool,
    /// The root of Redis's own certificate, in PEM, instead of the system's.
    pub(crate) root_certificate: Option<PathBuf>,
    /// The lease that is the leadership.
    pub(crate) resource_name: String,
    /// How long a lease lasts unrenewed.
    pub(crate) lease_duration_seconds: u32,
    /// How often it is renewed.
    pub(crate) renewal_interval_seconds: u32,
    /// Before every key in Redis.
    pub(crate) key_prefix: String,
    /// Is every renewal logged?
    pub(crate) enable_detailed_logging: bool,
}

impl Default for Coordination {
    fn default() -> Self {
        Self {
            backend: Backend::Database,
            url: None,
            weak_store: false,
            root_certificate: None,
            resource_name: "holdfast".to_owned(),
            lease_duration_seconds: 30,
            renewal_interval_seconds: 10,
            key_prefix: "holdfast:leader:".to_owned(),
            enable_detailed_logging: false,
        }
    }
}

impl Coordination {
    pub(super) fn anchor(&mut self, directory: &Path) {
        anchored(&mut self.root_certificate, directory);
    }

    pub(super) fn check(&self, findings: &mut Findings<'_>, database: &DatabaseUrl) {
        self.check_lease(findings);
        self.check_backend(findings);
        if !is_name(&self.resource_name) {
            findings.refuse_form("coordination.resource_name", "is no name");
        }
        findings.require(
            !holdfast_cluster::WORK_LEASES.contains(&self.resource_name.as_str()),
            "coordination.resource_name",
            "is the name of a lease of work",
            "choose another, such as \"holdfast\"",
        );
        findings.require(
            self.backend == Backend::Database || matches!(database, DatabaseUrl::Postgres(_)),
            "coordination.backend",
            "is redis beside SQLite, which serves one process and needs no Redis",
            "remove it, or use PostgreSQL as the database",
        );
        if !is_name(&self.key_prefix) {
            findings.refuse_form("coordination.key_prefix", "is no prefix");
        }
    }

    fn check_lease(&self, findings: &mut Findings<'_>) {
        let (lease, renewal) = (self.lease_duration_seconds, self.renewal_interval_seconds);
        let least = u64::from(renewal) * 3;
        findings.require(
            u64::from(lease) >= least,
            "coordination.lease_duration_seconds",
            format_args!(
                "is too short for renewals each {renewal} s: {lease} < 3 × {renewal} = {least}, so two lost renewals would cost the lease"
            ),
            format_args!("raise it to {least} or more, or lower coordination.renewal_interval_seconds to {} or less", (lease / 3).max(1)),
        );
    }

    fn check_backend(&self, findings: &mut Findings<'_>) {
        let Some(url) = self.url.as_ref().map(SecretText::expose) else {
            findings.require(
                self.backend == Backend::Database,
                "coordination.backend",
                "is redis without an address",
                "set coordination.url, such as \"redis://127.0.0.1:6379\"",
            );
            return;
        };
        if self.backend == Backend::Database {
            findings.refuse(
                "coordination.url",
                "is not used while coordination.backend is \"database\"",
                "remove it, or set coordination.backend = \"redis\"",
            );
        }
        let schemes = ["redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://"];
        let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
        if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/')) {
            findings.refuse_form("coordination.url", "names no Redis");
        } else if self.root_certificate.is_some() && !url.starts_with("rediss") {
            findings.refuse(
                "coordination.root_certificate",
                "is set, but coordination.url does not ask for TLS",
                "begin the URL with rediss://, or remove the key",
            );
        } else if url.contains("+sentinel://") {
            self.check_sentinel(findings, rest.unwrap_or_default());
        }
    }

    fn check_sentinel(&self, findings: &mut Findings<'_>, rest: &str) {
        findings.require(
            rest.split_once('/').is_some_and(|(_, service)| !service.is_empty()),
            "coordination.url",
            "names no service of the Sentinels",
            "end it with the service's name, as in redis+sentinel://h1:26379,h2:26379/mymaster",
        );
        findings.require(
            self.weak_store,
            "coordination.url",
            "is Redis behind asynchronous failover, which can lose an acknowledged lease",
            "set coordination.weak_store = true if that is good enough, or use coordination.backend = \"database\"",
        );
    }
}
