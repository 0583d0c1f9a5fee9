//! Faults on demand: what the CA and the zone do wrong, for how long, for whom.
//!
//! One fault of each kind at a time, optionally limited to a number of occurrences. A rate is spread evenly, not
//! drawn by lot: 0.25 is every fourth request, so that a test of a rate is the same test each time.
//! Where a fault strikes is decided by whoever asks here, not by this module.

mod kind;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use self::kind::FaultKind;
use self::value::Value;

/// Why a fault could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No such kind.
    #[error("there is no fault {kind:?}; the kinds are {}", kinds())]
    UnknownKind {
        /// What was asked for.
        kind: String,
    },
    /// A value that the kind cannot have.
    #[error("{value:?} is not a value for {kind}: it takes {}", kind.argument().syntax())]
    BadValue {
        /// The kind asked for.
        kind: FaultKind,
        /// The value given.
        value: String,
    },
    /// Limited to no occurrence at all.
    #[error("a fault that happens 0 times is none: leave `times` out, or give a number from 1")]
    NoTimes,
}

fn kinds() -> String {
    FaultKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

/// A fault that is switched on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind's name.
    pub kind: String,
    /// Its value, as it would be typed.
    pub value: String,
    /// How many occurrences are left, if that is limited.
    pub times_left: Option<u64>,
    /// How often it struck.
    pub struck: u64,
}

/// A limit that an account is over.
pub(crate) struct Limit {
    /// So many orders
    pub(crate) orders: u32,
    /// in so many seconds.
    pub(crate) seconds: u32,
    /// When the next one is allowed.
    pub(crate) wait: Duration,
}

struct Active {
    value: Value,
    times_left: Option<u64>,
    struck: u64,
    /// What a rate has gathered towards its next strike.
    gathered: f64,
    /// When each account's orders will have drained (GCRA), for the order limit.
    drained_at: HashMap<String, Instant>,
}

/// The switchboard of faults; clones share it.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<BTreeMap<FaultKind, Active>>>);

impl Faults {
    /// Switches a fault on, in place of one of its kind; with `times`, for that many occurrences.
    pub fn set(&self, kind: &str, value: &str, times: Option<u64>) -> Result<(), FaultError> {
        let kind: FaultKind = kind.parse()?;
        let value = Value::parse(kind, value)?;
        if times == Some(0) {
            return Err(FaultError::NoTimes);
        }
        tracing::warn!(%kind, %value, ?times, "development CA: fault switched on");
        let active = Active {
            value,
            times_left: times,
            struck: 0,
            gathered: 0.0,
            drained_at: HashMap::new(),
        };
        self.active().insert(kind, active);
        Ok(())
    }

    /// Switches one kind off.
    pub fn clear(&self, kind: &str) -> Result<(), FaultError> {
        let kind: FaultKind = kind.parse()?;
        self.active().remove(&kind);
        Ok(())
    }

    /// Switches all of them off.
    pub fn clear_all(&self) {
        self.active().clear();
    }

    /// What is switched on.
    pub fn list(&self) -> Vec<Fault> {
        let active = self.active();
        let list = active.iter().map(|(kind, fault)| Fault {
            kind: kind.name().to_owned(),
            value: fault.value.to_string(),
            times_left: fault.times_left,
            struck: fault.struck,
        });
        list.collect()
    }

    /// Whether a fault with a rate strikes this time.
    pub(crate) fn strikes(&self, kind: FaultKind) -> bool {
        self.strike(kind, Active::rate_is_due).is_some()
    }

    /// How long a fault of time lasts this time.
    pub(crate) fn delay(&self, kind: FaultKind) -> Option<Duration> {
        self.strike(kind, |_| true).map(|value| value.duration())
    }

    /// Whether a fault of names strikes this name.
    pub(crate) fn strikes_name(&self, kind: FaultKind, name: &str) -> bool {
        self.strike(kind, |fault| fault.value.covers(name)).is_some()
    }

    /// Whether a fault of names strikes any of these.
    pub(crate) fn strikes_any(&self, kind: FaultKind, names: &[String]) -> bool {
        self.strike(kind, |fault| names.iter().any(|name| fault.value.covers(name))).is_some()
    }

    /// Counts an order against its account's limit; over it, which that is, and how long to wait.
    pub(crate) fn over_order_limit(&self, account: &str) -> Option<Limit> {
        let mut wait = None;
        let struck = self.strike(FaultKind::OrderLimit, |fault| {
            wait = fault.over_limit(account, Instant::now());
            wait.is_some()
        })?;
        match (struck, wait) {
            (Value::Limit { orders, seconds }, Some(wait)) => Some(Limit { orders, seconds, wait }),
            _ => None,
        }
    }

    /// What new orders are answered instead: a status, and how many seconds to wait.
    pub(crate) fn order_refused(&self) -> Option<(u16, Option<u32>)> {
        match self.strike(FaultKind::OrderRefused, |_| true)? {
            Value::Answer { status, retry_after } => Some((status, retry_after)),
            _ => None,
        }
    }

    /// The status with which a web page is sent instead of every answer.
    pub(crate) fn web_page(&self) -> Option<u16> {
        match self.strike(FaultKind::WebPage, |_| true)? {
            Value::Status(status) => Some(status),
            _ => None,
        }
    }

    fn strike(&self, kind: FaultKind, decides: impl FnOnce(&mut Active) -> bool) -> Option<Value> {
        let mut active = self.active();
        let fault = active.get_mut(&kind)?;
        if !decides(fault) {
            return None;
        }
        fault.struck += 1;
        let value = fault.value.clone();
        if let Some(left) = &mut fault.times_left {
            *left -= 1;
            if *left == 0 {
                active.remove(&kind);
            }
        }
        Some(value)
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<FaultKind, Active>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Active {
    fn rate_is_due(&mut self) -> bool {
        let Value::Rate(rate) = self.value else { return false };
        self.gathered += rate;
        // A hair below one counts: ten tenths do not add up to it in binary.
        let due = self.gathered > 1.0 - 1e-9;
        if due {
            self.gathered -= 1.0;
        }
        due
    }

    /// A bucket of `orders` that refills evenly over `seconds`, kept as the time it will be full again.
    fn over_limit(&mut self, account: &str, now: Instant) -> Option<Duration> {
        let Value::Limit { orders, seconds } = self.value else { return None };
        let whole = Duration::from_secs(seconds.into());
        let each = whole / orders;
        let drained = self.drained_at.get(account).copied().unwrap_or(now).max(now) + each;
        let over = (drained - now).saturating_sub(whole);
        if over.is_zero() {
            self.drained_at.insert(account.to_owned(), drained);
            return None;
        }
        Some(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_spread_evenly() {
        let faults = Faults::default();
        faults.set("bad-nonce", "25%", None).unwrap();
        let struck: Vec<bool> = (0..8).map(|_| faults.strikes(FaultKind::BadNonce)).collect();
        assert_eq!(struck, [false, false, false, true, false, false, false, true]);
        faults.set("bad-nonce", "0.1", None).unwrap();
        let struck = (0..100).filter(|_| faults.strikes(FaultKind::BadNonce)).count();
        assert_eq!(struck, 10);
    }

    #[test]
    fn a_limited_fault_ends() {
        let faults = Faults::default();
        faults.set("caa", "shop.test", Some(2)).unwrap();
        assert!(!faults.strikes_name(FaultKind::Caa, "other.test"));
        assert!(faults.strikes_name(FaultKind::Caa, "SHOP.test"));
        assert_eq!(faults.list()[0].times_left, Some(1));
        assert!(faults.strikes_name(FaultKind::Caa, "shop.test"));
        assert!(!faults.strikes_name(FaultKind::Caa, "shop.test"));
        assert_eq!(faults.list(), []);
    }

    #[test]
    fn names_cover_what_they_say() {
        let faults = Faults::default();
        let cases = [
            ("a.test,b.test", "b.test", true),
            ("a.test", "x.a.test", false),
            ("*.a.test", "x.a.test", true),
            ("*.a.test", "a.test", false),
            ("*.a.test", "xa.test", false),
            ("*", "anything.example", true),
        ];
        for (value, name, expected) in cases {
            faults.set("unauthorized", value, None).unwrap();
            let struck = faults.strikes_name(FaultKind::Unauthorized, name);
            assert_eq!(struck, expected, "{value} on {name}");
        }
    }

    #[test]
    fn errors_name_the_value_and_what_is_valid() {
        let faults = Faults::default();
        let unknown = faults.set("bad-nonsense", "1", None).unwrap_err().to_string();
        assert!(unknown.contains("\"bad-nonsense\"") && unknown.contains("dns-servfail"));
        let cases = [
            ("bad-nonce", "1.5", "a rate from 0 to 1"),
            ("bad-nonce", "often", "a rate from 0 to 1"),
            ("bad-nonce", "NaN", "a rate from 0 to 1"),
            ("unavailable", "0", "whole seconds from 1"),
            ("processing", "-3", "whole milliseconds"),
            ("order-limit", "300", "ORDERS/SECONDS"),
            ("order-limit", "0/5", "ORDERS/SECONDS"),
            ("web-page", "199", "an HTTP status from 200"),
            ("order-refused", "200", "an HTTP status"),
            ("order-refused", "503/0", "an HTTP status"),
            ("caa", "", "names separated by commas"),
            ("caa", "a b.test", "names separated by commas"),
            ("caa", "a..test", "names separated by commas"),
        ];
        for (kind, value, expected) in cases {
            let refused = faults.set(kind, value, None).unwrap_err().to_string();
            assert!(refused.contains(expected) && refused.contains(kind), "{refused}");
            assert!(refused.contains(&format!("{value:?}")), "{refused}");
        }
        assert_eq!(faults.set("caa", "*", Some(0)), Err(FaultError::NoTimes));
        assert_eq!(faults.list(), []);
    }

    #[test]
    fn what_is_listed_can_be_set_again() {
        let faults = Faults::default();
        let values = [
            ("bad-nonce", "0.5"),
            ("order-limit", "300/10800"),
            ("processing", "1500"),
            ("order-refused", "503/30"),
            ("web-page", "404"),
            ("dns-wrong", "*.a.test,b.test"),
        ];
        for (kind, value) in values {
            faults.set(kind, value, None).unwrap();
        }
        for fault in faults.list() {
            assert!(values.contains(&(&fault.kind, &fault.value)), "{fault:?}");
        }
    }

    #[test]
    fn the_order_limit_is_per_account_and_refills() {
        let faults = Faults::default();
        faults.set("order-limit", "3/6", None).unwrap();
        let mut active = faults.active();
        let limit = active.get_mut(&FaultKind::OrderLimit).unwrap();
        let now = Instant::now();
        for _ in 0..3 {
            assert_eq!(limit.over_limit("one", now), None);
        }
        let wait = limit.over_limit("one", now).unwrap();
        assert_eq!(wait, Duration::from_secs(2));
        assert_eq!(limit.over_limit("two", now), None);
        assert_eq!(limit.over_limit("one", now + wait), None);
        assert!(limit.over_limit("one", now + wait).is_some());
    }
}
