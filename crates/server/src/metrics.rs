//! What `/metrics` shows: what the process recorded, and what the store says at the moment of asking.

use std::fmt::Write as _;
use std::time::Duration;

use holdfast_model::State;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

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
        let folded = handle.clone();
        tokio::spawn(async move {
            while tokio::time::timeout(UPKEEP, shutdown.cancelled()).await.is_err() {
                folded.run_upkeep();
            }
        });
        Ok(Self(Some(handle)))
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

    /// The text of Prometheus.
    pub(crate) fn render(&self, counts: Option<&[(State, u64)]>) -> String {
        let mut text = self.0.as_ref().map(PrometheusHandle::render).unwrap_or_default();
        text.push_str(&domains(counts));
        text
    }
}

/// Every state, also those nobody is in: a series that vanishes cannot be alerted on.
fn domains(counts: Option<&[(State, u64)]>) -> String {
    let mut text = format!(
        "# HELP holdfast_store_up Whether the store answered this scrape.\n# TYPE holdfast_store_up gauge\nholdfast_store_up {}\n",
        u8::from(counts.is_some())
    );
    let Some(counts) = counts else { return text };
    text.push_str("# HELP holdfast_domains Domains per state.\n# TYPE holdfast_domains gauge\n");
    for state in State::ALL {
        let count = counts.iter().find(|(of, _)| of == state).map_or(0, |(_, count)| *count);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "holdfast_domains{{state=\"{state}\"}} {count}");
    }
    text
}
