//! What `/metrics` shows: what the process recorded, and what the store says of the whole installation.

mod description;
mod gauge;

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

pub(crate) use self::gauge::{Process, gauges};

/// Seconds, from a store's round trip to the longest stay in a state.
const BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0, 600.0, 3600.0,
];

/// How often samples are folded when nobody scrapes, so that they do not pile up.
const UPKEEP: Duration = Duration::from_secs(5);

/// The metrics of this process.
#[derive(Clone)]
pub struct Metrics(Option<PrometheusHandle>);

impl Metrics {
    /// Records every metric of this process from now on, and keeps the record small until `shutdown`.
    ///
    /// # Errors
    /// When another recorder was installed before.
    pub fn install(shutdown: CancellationToken) -> Result<Self, BuildError> {
        let suffix = Matcher::Suffix("_seconds".to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(suffix, BUCKETS)?;
        let handle = builder.install_recorder()?;
        Self::describe();
        let folded = handle.clone();
        tokio::spawn(async move {
            while tokio::time::timeout(UPKEEP, shutdown.cancelled()).await.is_err() {
                folded.run_upkeep();
            }
        });
        Ok(Self(Some(handle)))
    }

    /// Tells the recorder what each metric means.
    pub fn describe() {
        description::describe();
    }

    /// What was recorded by a recorder that somebody else installed.
    #[must_use]
    pub fn of(handle: PrometheusHandle) -> Self {
        Self(Some(handle))
    }

    /// Nothing is recorded; only what the store says is shown.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// What the process recorded, as the text of Prometheus.
    pub(crate) fn recorded(&self) -> String {
        self.0.as_ref().map(PrometheusHandle::render).unwrap_or_default()
    }
}
