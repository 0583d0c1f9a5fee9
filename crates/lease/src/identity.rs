//! Who and what: the name of a lease, the holder people read, the incarnation the store compares, the term that fences.
//!
//! Each is made once, at the edge, and is right from then on. Nothing here knows of time or stores.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;

/// The most bytes a lease name or a holder may have.
const LONGEST: usize = 200;

fn checked(what: &'static str, text: &str) -> Result<Arc<str>, Error> {
    let fault = if text.is_empty() {
        "is empty"
    } else if text.len() > LONGEST {
        "is longer than 200 bytes"
    } else if text.chars().any(|letter| letter.is_control() || letter == '{' || letter == '}') {
        "has a control character or a brace" // Braces would choose a slot of a Redis Cluster.
    } else {
        return Ok(text.into());
    };
    Err(Error::Identity { what, text: text.chars().take(LONGEST).collect(), fault })
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a text: 1 to 200 bytes, no control characters, no braces.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
                checked($what, text.as_ref()).map(Self)
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    };
}

text! {
    /// The name of a lease: what is coordinated.
    Name, "lease name"
}

text! {
    /// The name of a contender as people read it, such as a pod's name. It may be the same after a restart, and two
    /// processes may bear it by mistake: it is shown, never compared to decide who owns a lease.
    Holder, "holder"
}

impl Holder {
    /// `{machine}_{process}_{random}`: unique across machines, processes and restarts.
    pub fn unique() -> Self {
        let uname = rustix::system::uname();
        let machine: String = uname
            .nodename()
            .to_string_lossy()
            .chars()
            .filter(|letter| !letter.is_control() && !matches!(letter, '{' | '}'))
            .take(40)
            .collect();
        let random = Uuid::new_v4().simple().to_string();
        let random: String = random.chars().take(12).collect();
        Self(format!("{machine}_{}_{random}", std::process::id()).into())
    }
}

/// One start of one process: what the store compares. A restarted process is another incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(Uuid);

impl Incarnation {
    /// A new incarnation, unlike any other.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The incarnation as it is stored.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// As it is stored.
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().to_string().chars().take(8).try_for_each(|digit| write!(f, "{digit}"))
    }
}

/// The fencing token: rises with every change of owner, stays on renewal, survives release, expiry and force.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Term(i64);

impl Term {
    /// Before any owner.
    pub const NONE: Self = Self(0);

    /// A term as it is stored; a negative number is none.
    pub const fn new(number: i64) -> Self {
        Self(if number < 0 { 0 } else { number })
    }

    /// The number.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// The next higher term.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Ranks candidates; higher is preferred. It never decides who owns a lease: the store does.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Priority(pub i16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(Name::new("renewal-sweep").unwrap().as_str(), "renewal-sweep");
        for wrong in ["", "a\nb", "a{b}", &"x".repeat(201)] {
            assert!(Name::new(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn unique_holders_differ_and_say_where_they_run() {
        let (one, other) = (Holder::unique(), Holder::unique());
        assert_ne!(one, other);
        assert!(one.as_str().contains(&format!("_{}_", std::process::id())), "{one}");
    }
}
