//! Following a domain as its states pass, with the time each took.
//!
//! The history is asked again and again: it is complete whoever looks, and survives a server's restart.

use std::time::Duration;

use holdfast_model::{State, Timestamp};
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
    at: Timestamp,
    duration_ms: u64,
    attempt: u32,
    error: Option<Cause>,
}

#[derive(Debug, Clone, Deserialize)]
struct Cause {
    code: String,
    detail: String,
}

/// Where notes begin on a line.
const NOTE_AT: usize = 38;

/// What is worth saying of a step beside its time.
fn note(step: &Step) -> String {
    let attempt =
        if step.attempt > 1 { format!("  attempt {}", step.attempt) } else { String::new() };
    let cause = step.error.as_ref().map(|cause| format!("  {}: {}", cause.code, cause.detail));
    attempt + &cause.unwrap_or_default()
}

/// What is known of an Active domain: only an edge that made a handshake knows that it is served.
fn standing(domain: &Value) -> &'static str {
    match domain.pointer("/serving/seen_at") {
        Some(Value::String(_)) => "served over HTTPS",
        _ => "its certificate is stored; no edge reports serving it",
    }
}

/// One domain being followed.
pub(super) struct Follow<'a> {
    api: &'a Api,
    output: Output,
    path: String,
    seen: usize,
    began_at: Option<Timestamp>,
    total: Duration,
    state: Option<State>,
    state_since: Instant,
    asked: bool,
    settled: u32,
}

/// What the newest row of the history means to somebody who waits.
enum End {
    Active,
    Failed(State),
    Removed,
}

impl End {
    /// What a step leads to, if it is an end.
    fn of(step: &Step) -> Option<Self> {
        match step.to {
            None => Some(Self::Removed),
            Some(state) if state.is_failure() && step.from == step.to => None,
            Some(state) => Self::at(state),
        }
    }

    /// What a state is, if it is an end.
    fn at(state: State) -> Option<Self> {
        match state {
            State::Active => Some(Self::Active),
            state if state.is_failure() => Some(Self::Failed(state)),
            _ => None,
        }
    }
}

impl<'a> Follow<'a> {
    /// Follows from the domain's beginning.
    pub(super) fn from_start(api: &'a Api, output: Output, id: &str) -> Self {
        let path = format!("/v1/domains/{id}");
        Self {
            api,
            output,
            path,
            seen: 0,
            began_at: None,
            total: Duration::ZERO,
            state: None,
            state_since: Instant::now(),
            asked: false,
            settled: 0,
        }
    }

    /// Follows what comes after now, when something was asked for.
    pub(super) async fn from_now(api: &'a Api, output: Output, id: &str) -> Result<Self, Failure> {
        let mut follow = Self::from_start(api, output, id);
        follow.seen = follow.history().await?.len();
        follow.asked = true;
        Ok(follow)
    }

    /// Shows each state as it passes, until it is Active, has failed or is gone.
    pub(super) async fn until_its_end(mut self) -> Result<(), Failure> {
        let mut lost_since = None;
        loop {
            match self.history().await {
                Ok(steps) => {
                    lost_since = None;
                    let end = match self.pass(&steps) {
                        Some(end) => Some(end),
                        None => self.needs_nothing().await?,
                    };
                    if let Some(end) = end {
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

    /// Shows what is new; says whether the newest of it is the end. What lies between was left again meanwhile.
    fn pass(&mut self, steps: &[Step]) -> Option<End> {
        let mut end = None;
        for step in steps.iter().skip(self.seen) {
            self.seen += 1;
            self.show(step);
            end = End::of(step);
            if step.from != step.to {
                self.state_since = Instant::now();
            }
            self.state = step.to;
        }
        end
    }

    /// What was asked for may need no step at all: an Active domain has nothing to retry.
    async fn needs_nothing(&mut self) -> Result<Option<End>, Failure> {
        if !self.asked || self.began_at.is_some() {
            return Ok(None);
        }
        let domain = self.api.get(&self.path).await?;
        let settled = domain.get("wanted").is_none_or(Value::is_null);
        self.settled = if settled { self.settled + 1 } else { 0 };
        let state =
            domain.get("state").and_then(Value::as_str).and_then(|state| state.parse().ok());
        // A step committed between the two questions shows in the history the next time.
        Ok(state.filter(|_| self.settled > 1).and_then(End::at))
    }

    fn show(&mut self, step: &Step) {
        self.total = step.at.since(*self.began_at.get_or_insert(step.at));
        let (Some(from), false) = (step.from, self.output.is_json()) else { return };
        self.output.clear();
        let style = self.output.style();
        let symbol = match step.to {
            to if to == step.from => style.warn("↻"),
            Some(to) if to.is_failure() => style.bad("✗"),
            _ => style.good("✓"),
        };
        let took = clock::span(Duration::from_millis(step.duration_ms));
        let note = self.output.cut(&note(step), NOTE_AT);
        self.output.line(format!("{symbol} {from:<28}{took:>8}{}", style.dim(&note)));
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
        } else {
            self.say_end(end, &domain);
        }
        match end {
            End::Active | End::Removed => Ok(()),
            End::Failed(_) => Err(self.explained().await?),
        }
    }

    fn say_end(&self, end: &End, domain: &Value) {
        let (style, total) = (self.output.style(), clock::span(self.total));
        let line = match end {
            End::Failed(state) => {
                format!("{} {} after {total}", style.bad("✗"), style.bad(state.as_str()))
            }
            _ => format!(
                "{} {} after {total}: {}",
                style.good("✓"),
                style.good("Active"),
                standing(domain)
            ),
        };
        self.output.line(line);
    }

    async fn explained(&self) -> Result<Failure, Failure> {
        let explanation = self.api.get(&format!("{}/explain", self.path)).await?;
        let text = |name: &str| explanation.get(name).and_then(Value::as_str).unwrap_or_default();
        Ok(Failure::failed(format!("{} {}", text("summary"), text("fix"))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_an_edge_saw_is_called_served() {
        let seen = json!({"serving": {"seen_at": "2026-01-01T00:00:00Z"}});
        assert_eq!(standing(&seen), "served over HTTPS");
        for domain in [json!({"serving": null}), json!({})] {
            assert!(standing(&domain).starts_with("its certificate is stored"));
        }
    }
}
