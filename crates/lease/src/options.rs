//! Settings, and the arithmetic that says whether they can keep a lease.

use std::fmt::Write as _;
use std::time::Duration;

use crate::error::Error;

/// Settings of an elector. The defaults are thirds and thirtieths of the lease: change `lease_duration` and
/// `renewal_interval`, and the rest follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How long a lease lasts without renewal: 30 s. A crashed leader is followed after this long.
    pub lease_duration: Duration,
    /// How often a leader renews: 10 s. At most a third of the lease.
    pub renewal_interval: Duration,
    /// In front of every lease name in a shared key space (Redis): `holdfast:leader:`.
    pub key_prefix: String,
    /// Log every renewal and every look, not only changes: off.
    pub enable_detailed_logging: bool,
    /// How long one request to the store may take; then it is given up and cannot act any more. A tenth of the lease.
    pub request_timeout: Duration,
    /// How long to wait after a failed request before the next. A thirtieth of the lease.
    pub retry_interval: Duration,
    /// What is held back from the end of a lease, for steps of the store's clock; work is cancelled half as much earlier
    /// still, so that it can stop in time. A fifteenth of the lease.
    pub margin: Duration,
    /// By what part the clocks of this machine and of the store may run apart: 0.01. (Quartz drifts by 0.0001; a clock
    /// being slewed into place may be off by much more.)
    pub drift: f64,
    /// How often a follower looks when nothing can wake it: a listener is lost, or the store has none. A fifteenth
    /// of the lease.
    pub poll_interval: Duration,
    /// How long a lease given up in favour of someone waits for that one alone. Half of the lease: guarded writes that are still
    /// open may hold up the successor for a third of it. Whoever let go contends again after a third of this.
    pub reservation: Duration,
    /// By how much a contender hesitates, per step its priority is below the last holder's: 50 ms.
    pub priority_step: Duration,
    /// How often a follower looks whether the holder's beacon is still there, where both keep one: 50 ms.
    pub beacon_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self::with_lease(Duration::from_secs(30), Duration::from_secs(10))
    }
}

impl Options {
    /// Settings for a lease of this duration, renewed this often.
    pub fn with_lease(lease_duration: Duration, renewal_interval: Duration) -> Self {
        Self {
            lease_duration,
            renewal_interval,
            key_prefix: "holdfast:leader:".to_owned(),
            enable_detailed_logging: false,
            request_timeout: lease_duration / 10,
            retry_interval: lease_duration / 30,
            margin: lease_duration / 15,
            drift: 0.01,
            poll_interval: lease_duration / 15,
            reservation: lease_duration / 2,
            priority_step: Duration::from_millis(50).min(lease_duration / 60),
            beacon_interval: Duration::from_millis(50).min(lease_duration / 20),
        }
    }

    /// Checks that the settings can keep a lease through one lost reply, and makes the spans the protocol runs on.
    pub fn timing(&self) -> Result<Timing, Error> {
        let faults = [self.ratio_fault(), self.range_fault(), self.window_fault()];
        if let Some(fault) = faults.into_iter().flatten().next() {
            return Err(Error::UnsafeOptions(fault));
        }
        let drift = self.lease_duration.mul_f64(self.drift);
        Ok(Timing {
            ttl: self.lease_duration,
            window: self.lease_duration.saturating_sub(drift + self.margin),
            lead: self.margin / 2,
            renew_every: self.renewal_interval,
            request_timeout: self.request_timeout,
            retry: self.retry_interval,
            poll: self.poll_interval,
            reservation: self.reservation,
            courtesy: self.reservation / 3,
            priority_step: self.priority_step,
            beacon: self.beacon_interval,
            drift_ppm: Self::ppm(self.drift),
            margin: self.margin,
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was checked: 0 to 0.2"
    )]
    fn ppm(drift: f64) -> u32 {
        (drift * 1e6) as u32
    }

    fn ratio_fault(&self) -> Option<String> {
        let (lease, renewal) = (self.lease_duration, self.renewal_interval);
        (lease < renewal * 3).then(|| {
            format!(
                "lease_duration {lease:?} < 3 × renewal_interval {renewal:?} = {:?}",
                renewal * 3
            )
        })
    }

    fn range_fault(&self) -> Option<String> {
        let spans = [
            ("renewal_interval", self.renewal_interval),
            ("request_timeout", self.request_timeout),
            ("retry_interval", self.retry_interval),
            ("margin", self.margin),
            ("poll_interval", self.poll_interval),
            ("beacon_interval", self.beacon_interval),
        ];
        let zero = spans.into_iter().find(|(_, span)| span.is_zero());
        let zero = zero.map(|(name, _)| format!("{name} is zero"));
        let drift = !(0.0..=0.2).contains(&self.drift);
        zero.or_else(|| drift.then(|| format!("drift {} is not within 0 and 0.2", self.drift)))
    }

    /// From the moment the last good renewal was sent: the next is due; it may find one request in front of it on the
    /// connection; it may be lost; its repetition must be confirmed before the work is cancelled.
    fn window_fault(&self) -> Option<String> {
        let terms = [
            ("renewal_interval", self.renewal_interval),
            ("request_timeout (one ahead of it)", self.request_timeout),
            ("request_timeout", self.request_timeout),
            ("retry_interval", self.retry_interval),
            ("request_timeout (second try)", self.request_timeout),
            ("margin", self.margin),
            ("margin / 2 to stop in", self.margin / 2),
        ];
        let sum: Duration = terms.iter().map(|(_, span)| *span).sum();
        let sure = self.lease_duration.mul_f64(1.0 - self.drift);
        if sum < sure {
            return None;
        }
        let mut shown = String::new();
        for (index, (name, span)) in terms.iter().enumerate() {
            let plus = if index == 0 { "" } else { " + " };
            write!(shown, "{plus}{name} {span:?}").ok();
        }
        let (lease, drift) = (self.lease_duration, self.drift);
        Some(format!(
            "{shown} = {sum:?}, not < lease_duration {lease:?} × (1 − {drift}) = {sure:?}"
        ))
    }
}

/// The spans the protocol runs on, checked: made by [`Options::timing`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    pub(crate) ttl: Duration,
    /// From sending to the end of belief: `ttl × (1 − drift) − margin`.
    pub(crate) window: Duration,
    /// How long before the end of belief the work is cancelled: `margin/2`.
    pub(crate) lead: Duration,
    pub(crate) renew_every: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) retry: Duration,
    pub(crate) poll: Duration,
    pub(crate) reservation: Duration,
    /// How long whoever let go by itself gives others the first go.
    pub(crate) courtesy: Duration,
    pub(crate) priority_step: Duration,
    /// How often the holder's beacon is looked for.
    pub(crate) beacon: Duration,
    pub(crate) drift_ppm: u32,
    pub(crate) margin: Duration,
}

impl Timing {
    /// How long a row of this lease must be seen unchanged before it may be taken whatever the store's clock says:
    /// `ttl × (1 + drift) + margin`.
    pub(crate) fn still(&self, ttl: Duration) -> Duration {
        ttl + self.drift_of(ttl) + self.margin
    }

    pub(crate) fn drift_of(&self, span: Duration) -> Duration {
        let nanos = span.as_nanos() * u128::from(self.drift_ppm) / 1_000_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones_and_safe() {
        let options = Options::default();
        assert_eq!(options.lease_duration, Duration::from_secs(30));
        assert_eq!(options.renewal_interval, Duration::from_secs(10));
        let timing = options.timing().unwrap();
        assert_eq!(timing.window, Duration::from_millis(27_700));
    }

    #[test]
    fn an_unsafe_ratio_is_refused_with_the_arithmetic() {
        let options = Options::with_lease(Duration::from_secs(25), Duration::from_secs(10));
        let refusal = options.timing().unwrap_err().to_string();
        assert_eq!(
            refusal,
            "unsafe lease options: lease_duration 25s < 3 × renewal_interval 10s = 30s"
        );
    }

    #[test]
    fn a_sum_that_does_not_fit_is_shown() {
        let options = Options { request_timeout: Duration::from_secs(6), ..Options::default() };
        let refusal = options.timing().unwrap_err().to_string();
        assert_eq!(
            refusal,
            "unsafe lease options: renewal_interval 10s + request_timeout (one ahead of it) 6s + request_timeout 6s \
             + retry_interval 1s + request_timeout (second try) 6s + margin 2s + margin / 2 to stop in 1s = 32s, not < \
             lease_duration 30s × (1 − 0.01) = 29.7s"
        );
    }

    #[test]
    fn nothing_may_be_zero_and_drift_is_bounded() {
        let zero = Options { margin: Duration::ZERO, ..Options::default() };
        assert!(zero.timing().unwrap_err().to_string().contains("margin is zero"));
        let wild = Options { drift: 0.5, ..Options::default() };
        assert!(wild.timing().unwrap_err().to_string().contains("drift 0.5"));
    }
}
