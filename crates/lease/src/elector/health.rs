//! How an elector is doing.

use std::time::Duration;

use serde::Serialize;

/// How an elector is doing, worst first in what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", content = "why", rename_all = "kebab-case")]
pub enum Health {
    /// Everything as it should be.
    Healthy,
    /// It works, but something is wrong: a renewal is late, or nothing can wake it and it polls.
    Degraded(String),
    /// It does not work: the store has not answered for a whole lease, its task is dead, or work under a lease has
    /// stopped making the progress it promised.
    Unhealthy(String),
}

/// What the driver knows about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Condition {
    /// How long ago the store answered last, if it does not now.
    pub(super) silent_since: Option<crate::clock::Moment>,
    /// The last failure, in words.
    pub(super) failure: Option<String>,
    /// Whether wake-ups are lost; polling goes on.
    pub(super) deaf: bool,
    /// Whether the beacon is out, where one is wanted.
    pub(super) dark: bool,
    /// The driver has ended, in order or not.
    pub(super) ended: bool,
}

impl Condition {
    /// The store answered; true if that is news.
    pub(super) fn answered(&mut self) -> bool {
        self.failure = None;
        self.silent_since.take().is_some()
    }

    pub(super) fn fail(&mut self, now: crate::clock::Moment, failure: String) {
        self.silent_since.get_or_insert(now);
        self.failure = Some(failure);
    }

    pub(super) fn judge(
        &self,
        now: crate::clock::Moment,
        window: Duration,
        stuck: Option<String>,
    ) -> Health {
        let silent = self.silent_since.map(|since| now.since(since));
        let why = || self.failure.clone().unwrap_or_else(|| "no answer".to_owned());
        match silent {
            _ if self.ended => Health::Unhealthy("the elector's task has ended".to_owned()),
            Some(silent) if silent >= window => {
                Health::Unhealthy(format!("the store has not answered for {silent:?}: {}", why()))
            }
            _ if stuck.is_some() => Health::Unhealthy(stuck.unwrap_or_default()),
            Some(_) => Health::Degraded(format!("the last request to the store failed: {}", why())),
            None if self.deaf => {
                Health::Degraded("nothing can wake this process: polling".to_owned())
            }
            None if self.dark => Health::Degraded(
                "its beacon is out: should this process die, nobody knows before its leases expire"
                    .to_owned(),
            ),
            None => Health::Healthy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;

    #[test]
    fn a_late_renewal_is_degraded_and_a_lost_window_unhealthy() {
        let at = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
        let window = Duration::from_secs(28);
        let late = Condition { silent_since: Some(at(10)), ..Condition::default() };
        assert!(matches!(late.judge(at(15), window, None), Health::Degraded(_)));
        assert!(matches!(late.judge(at(39), window, None), Health::Unhealthy(_)));
        let deaf = Condition { deaf: true, ..Condition::default() };
        assert!(matches!(deaf.judge(at(1), window, None), Health::Degraded(_)));
        let stuck = Some("no beat".to_owned());
        assert!(matches!(Condition::default().judge(at(1), window, stuck), Health::Unhealthy(_)));
    }
}
