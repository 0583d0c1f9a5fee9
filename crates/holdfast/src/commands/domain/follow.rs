//! Following a domain as its states pass, with the time each took.
//!
//! The history is asked again and again: it is complete whoever looks, and survives a server's restart.

use std::time::Duration;

use holdfast_model::State;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    client::{Api, parsed},
    clock,
    failure::Failure,
    output::Output,
};

/// How often the history is asked.
const PACE: Duration = Duration::from_millis(120);

/// How long a server that went away is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A row of the history.
#[derive(Debug, Clone, Deserialize)]
struct Step {
    from: Option<State>,
    to: Option<State>,
    duration_ms: u64,
    attempt: u32,
    error: Option<Cause>,
}

#[derive(Debug, Clone, Deserialize)]
struct Cause {
    code: String,
    detail: String,
}

/// One domain being followed.
pub(super) struct Follow<'a> {
    api: &'a Api,
    output: Output,
    path: String,
    seen: usize,
    total: Duration,
    state: Option<State>,
    state_since: Instant,
}

/// What the newest row of the history means to somebody who waits.
enum End {
    Served,
    Failed,
    Removed,
}

impl<'a> Follow<'a> {
    /// Follows from the domain's beginning.
    pub(super) fn from_start(api: &'a Api, output: Output, id: &str) -> Self {
        let path = format!("/v1/domains/{id}");
        let (total, state_since) = (Duration::ZERO, Instant::now());
        Self { api, output, path, seen: 0, total, state: None, state_since }
    }

    /// Follows what comes after now.
    pub(super) async fn from_now(api: &'a Api, output: Output, id: &str) -> Result<Self, Failure> {
        let mut follow = Self::from_start(api, output, id);
        follow.seen = follow.history().await?.len();
        Ok(follow)
    }

    /// Shows each state as it passes, until it is served, has failed or is gone.
    pub(super) async fn to_the_end(mut self) -> Result<(), Failure> {
        let mut lost_since = None;
        loop {
            match self.history().await {
                Ok(steps) => {
                    lost_since = None;
                    if let Some(end) = self.pass(&steps) {
                        self.output.clear();
                        return self.finish(&end).await;
                    }
                }
                Err(Failure::Unreachable(_))
                    if lost_since.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {}
                Err(failure) => {
                    self.output.clear();
                    return Err(failure);
                }
            }
            self.show_current(lost_since.is_some());
            sleep(PACE).await;
        }
    }

    async fn history(&self) -> Result<Vec<Step>, Failure> {
        let items = self.api.list(&format!("{}/history", self.path)).await?;
        items.iter().map(parsed).collect()
    }

    /// Shows what is new; says whether that was the end.
    fn pass(&mut self, steps: &[Step]) -> Option<End> {
        for step in steps.iter().skip(self.seen) {
            self.seen += 1;
            self.show(step);
            match step.to {
                None => return Some(End::Removed),
                Some(State::Active) => return Some(End::Served),
                Some(state) if state.is_failure() && step.from != step.to => {
                    return Some(End::Failed);
                }
                Some(state) => {
                    self.state = Some(state);
                    self.state_since = Instant::now();
                }
            }
        }
        None
    }

    fn show(&mut self, step: &Step) {
        let Some(from) = step.from else { return };
        let took = Duration::from_millis(step.duration_ms);
        self.total += took;
        if self.output.is_json() {
            return;
        }
        self.output.clear();
        let style = self.output.style();
        let took = format!("{:>8}", clock::span(took));
        let cause = step.error.as_ref().map_or_else(String::new, |cause| {
            format!("  {}", style.dim(&format!("{}: {}", cause.code, cause.detail)))
        });
        let symbol = match step.to {
            to if to == step.from => style.warn("↻"),
            Some(to) if to.is_failure() => style.bad("✗"),
            _ => style.good("✓"),
        };
        let attempt =
            if step.attempt > 1 { format!("  attempt {}", step.attempt) } else { String::new() };
        self.output.line(format!("{symbol} {from:<28}{took}{}{cause}", style.dim(&attempt)));
    }

    /// The state it is in, on a line that is written over.
    fn show_current(&self, lost: bool) {
        let (true, false, Some(state)) = (self.output.is_live(), self.output.is_json(), self.state)
        else {
            return;
        };
        let style = self.output.style();
        let since = clock::span(self.state_since.elapsed());
        let note = if lost { "  (the server does not answer; waiting for it)" } else { "" };
        self.output.rewrite(&format!(
            "{} {state:<28}{}{note}",
            style.warn("●"),
            style.dim(&format!("{since:>8}"))
        ));
    }

    async fn finish(&self, end: &End) -> Result<(), Failure> {
        if matches!(end, End::Removed) {
            return Err(Failure::failed("The domain was removed while it was waited for."));
        }
        let domain = self.api.get(&self.path).await?;
        if self.output.is_json() {
            self.output.json(&domain);
        }
        match end {
            End::Served => self.served(&domain),
            _ => return Err(self.explained().await?),
        }
        Ok(())
    }

    fn served(&self, domain: &Value) {
        if self.output.is_json() {
            return;
        }
        let style = self.output.style();
        let name = domain.get("name").and_then(Value::as_str).unwrap_or_default();
        let total = clock::span(self.total);
        self.output.line(format!(
            "{} {} after {total}: {name} is served over HTTPS.",
            style.good("✓"),
            style.good("Active")
        ));
    }

    async fn explained(&self) -> Result<Failure, Failure> {
        let explanation = self.api.get(&format!("{}/explain", self.path)).await?;
        let text = |name: &str| explanation.get(name).and_then(Value::as_str).unwrap_or_default();
        Ok(Failure::failed(format!("{} {}", text("summary"), text("fix"))))
    }
}
