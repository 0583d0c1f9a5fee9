//! Reports what was seen as soon as it can, and that the edge lives in any case.

use holdfast_store::EdgeReport;

use super::outbox::Outbox;
use super::trouble::Trouble;
use super::{AgentConfig, within};
use crate::error::chain;
use crate::{Error, Feed};

/// Runs until the edge must register again.
pub(super) async fn run(feed: &dyn Feed, config: &AgentConfig, outbox: &Outbox) -> Error {
    let mut trouble = Trouble::new("the edge cannot report");
    let mut limit = config.observations;
    loop {
        let report = outbox.draft(limit);
        match within(config.answer_limit, feed.report(&report)).await {
            Ok(()) => {
                trouble.is_over();
                config.status.reported(report.up_to, report.error.as_ref());
                metrics::counter!("holdfast_agent_reports_total").increment(1);
                limit = config.observations;
                if !outbox.done_with(&report) {
                    // Either way it is time: something was seen, or a sign of life is due.
                    tokio::time::timeout(config.heartbeat, outbox.filled()).await.ok();
                }
            }
            Err(Error::Unregistered) => return Error::Unregistered,
            // One observation that cannot be taken must not keep the others back.
            Err(Error::Refused { .. }) if report.observations.len() > 1 => limit = 1,
            Err(error @ Error::Refused { .. }) if !report.observations.is_empty() => {
                let lost = &report.observations;
                tracing::error!(error = chain(&error), ?lost, "an observation was refused");
                let (strangers, adopted) = (None, Vec::new());
                let up_to = outbox.reported();
                outbox.done_with(&EdgeReport { up_to, strangers, adopted, ..report });
            }
            Err(error @ Error::Refused { .. })
                if report.strangers.is_some() || !report.adopted.is_empty() =>
            {
                tracing::error!(
                    error = chain(&error),
                    "the list of files that are not ours was refused"
                );
                outbox.done_with(&EdgeReport { up_to: outbox.reported(), ..report });
            }
            Err(error) => {
                config.status.failed(&error);
                trouble.rest_after(&error).await;
            }
        }
    }
}
