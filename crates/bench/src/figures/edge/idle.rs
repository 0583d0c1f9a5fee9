//! What an agent does and costs while nothing changes.

use std::time::Duration;

use anyhow::Result;

use super::Edge;
use crate::process;

/// How long it is watched.
const WATCHED: Duration = Duration::from_secs(60);

/// What an idle agent did.
pub(super) struct Idle {
    polls: u64,
    reports: u64,
    others: u64,
    cpu: Duration,
}

impl Idle {
    pub(super) async fn watch(edge: &Edge) -> Result<Self> {
        let agent = edge.agent.pid();
        let (before, cpu) = (edge.plane.asked(), process::cpu(agent)?);
        tokio::time::sleep(WATCHED).await;
        let (after, cpu) = (edge.plane.asked(), process::cpu(agent)? - cpu);
        Ok(Self {
            polls: after.polls - before.polls,
            reports: after.reports - before.reports,
            others: after.others - before.others,
            cpu,
        })
    }

    pub(super) fn shown(&self) -> String {
        let Self { polls, reports, others, cpu } = self;
        format!(
            "In {} s without a change it asks {polls} times by long poll, reports {reports} times that it lives, makes {others} other \
             requests, and uses {} ms of processor time.",
            WATCHED.as_secs(),
            cpu.as_millis()
        )
    }
}
