//! The value of a fault, parsed once from what a person typed.

use std::fmt;
use std::time::Duration;

use super::FaultError;
use super::kind::{Argument, FaultKind};

/// A fault's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Rate(f64),
    Milliseconds(u64),
    Seconds(u64),
    Limit { orders: u32, seconds: u32 },
    Answer { status: u16, retry_after: Option<u32> },
    Status(u16),
    Names(Vec<Pattern>),
}

impl Value {
    pub(crate) fn parse(kind: FaultKind, text: &str) -> Result<Self, FaultError> {
        let text = text.trim();
        let parsed = match kind.argument() {
            Argument::Rate => rate(text).map(Value::Rate),
            Argument::Milliseconds => text.parse().ok().map(Value::Milliseconds),
            Argument::Seconds => positive(text).map(|s| Value::Seconds(s.into())),
            Argument::Limit => limit(text),
            Argument::Answer => answer(text),
            Argument::Status => status(text).map(Value::Status),
            Argument::Names => names(text).map(Value::Names),
        };
        parsed.ok_or_else(|| FaultError::BadValue { kind, value: text.to_owned() })
    }

    pub(crate) fn duration(&self) -> Duration {
        match self {
            Value::Milliseconds(ms) => Duration::from_millis(*ms),
            Value::Seconds(s) => Duration::from_secs(*s),
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn covers(&self, name: &str) -> bool {
        matches!(self, Value::Names(patterns) if patterns.iter().any(|one| one.covers(name)))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Rate(rate) => write!(f, "{rate}"),
            Value::Milliseconds(number) | Value::Seconds(number) => write!(f, "{number}"),
            Value::Limit { orders, seconds } => write!(f, "{orders}/{seconds}"),
            Value::Status(status) | Value::Answer { status, retry_after: None } => {
                write!(f, "{status}")
            }
            Value::Answer { status, retry_after: Some(seconds) } => write!(f, "{status}/{seconds}"),
            Value::Names(patterns) => {
                let names: Vec<String> = patterns.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

/// Which names a fault touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    All,
    Below(String),
    Exactly(String),
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches('.').to_ascii_lowercase();
        if text == "*" {
            return Some(Pattern::All);
        }
        let (name, below) = match text.strip_prefix("*.") {
            Some(parent) => (parent, true),
            None => (text.as_str(), false),
        };
        let plausible = !name.is_empty()
            && name.split('.').all(|label| !label.is_empty())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        plausible.then(|| match below {
            true => Pattern::Below(name.to_owned()),
            false => Pattern::Exactly(name.to_owned()),
        })
    }

    fn covers(&self, name: &str) -> bool {
        match self {
            Pattern::All => true,
            Pattern::Exactly(exact) => name.eq_ignore_ascii_case(exact),
            Pattern::Below(parent) => {
                let name = name.to_ascii_lowercase();
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::All => f.write_str("*"),
            Pattern::Below(parent) => write!(f, "*.{parent}"),
            Pattern::Exactly(name) => f.write_str(name),
        }
    }
}

fn rate(text: &str) -> Option<f64> {
    let rate: f64 = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=1.0).contains(&rate).then_some(rate)
}

fn positive(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number > 0)
}

fn limit(text: &str) -> Option<Value> {
    let (orders, seconds) = text.split_once('/')?;
    Some(Value::Limit { orders: positive(orders.trim())?, seconds: positive(seconds.trim())? })
}

fn answer(text: &str) -> Option<Value> {
    let (status, retry_after) = match text.split_once('/') {
        Some((status, seconds)) => (status, Some(positive(seconds.trim())?)),
        None => (text, None),
    };
    let status = status.trim().parse().ok().filter(|status| (400..600).contains(status))?;
    Some(Value::Answer { status, retry_after })
}

fn status(text: &str) -> Option<u16> {
    text.parse().ok().filter(|status| (200..600).contains(status))
}

fn names(text: &str) -> Option<Vec<Pattern>> {
    text.split(',').map(Pattern::parse).collect()
}
