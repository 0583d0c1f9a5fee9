//! Crash points: the named places around effects where a test can kill the process.
//!
//! `HOLDFAST_CRASH=name:occurrence:before|after` aborts the process at that occurrence of that point,
//! counted per process from 1. `HOLDFAST_CRASH_RECORD=FILE` appends one line per occurrence reached, so
//! that the n-th line with a name is occurrence n of it. With neither set a point costs one load.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A place where an effect leaves the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point(&'static str);

macro_rules! points {
    ($($constant:ident = $name:literal, $doc:literal;)*) => {
        impl Point {
            $(#[doc = $doc] pub const $constant: Point = Point($name);)*

            /// Every point there is.
            pub const ALL: &'static [Point] = &[$(Point::$constant),*];
        }
    };
}

points! {
    STORE_ADD_DOMAIN = "store.add-domain", "A new domain and its claim on the name are committed.";
    STORE_CLAIM = "store.claim", "Due domains are claimed for work.";
    STORE_ADMIT = "store.admit", "Queued domains are admitted to ordering.";
    STORE_TRANSITION = "store.transition", "A domain's step is committed.";
    STORE_RENEW_CLAIMS = "store.renew-claims", "Claims of running work are extended.";
    STORE_WANT = "store.want", "A person's request (retry, renew, remove) is noted.";
    STORE_ACCOUNT_JOURNAL = "store.account-journal", "An ACME account key is sealed before its use.";
    STORE_ACCOUNT_REGISTERED = "store.account-registered", "An ACME account's URL is kept.";
    STORE_PAUSE = "store.pause", "An account's pause, asked for by its CA, is kept.";
    STORE_RELEASE_DOMAIN = "store.release-domain", "A removed domain's name becomes free.";
    STORE_CHALLENGE_DROP = "store.challenge-drop", "A challenge that is no longer needed is dropped.";
    STORE_DEPLOY = "store.deploy", "A certificate becomes what edges should serve.";
    STORE_OBSERVE = "store.observe", "What an edge was seen to serve is kept.";
    ACME_DIRECTORY = "acme.directory", "The CA's directory is read.";
    ACME_NONCE = "acme.nonce", "A nonce is fetched.";
    ACME_NEW_ACCOUNT = "acme.new-account", "An account is registered.";
    ACME_NEW_ORDER = "acme.new-order", "An order is made.";
    ACME_ORDER = "acme.order", "An order is read.";
    ACME_AUTHORIZATION = "acme.authorization", "An authorization is read.";
    ACME_CHALLENGE = "acme.challenge", "A challenge is declared ready, or read.";
    ACME_FINALIZE = "acme.finalize", "An order is finalized with a CSR.";
    ACME_CERTIFICATE = "acme.certificate", "A certificate is downloaded.";
    ACME_REVOKE = "acme.revoke", "A certificate is revoked.";
    ACME_RENEWAL_INFO = "acme.renewal-info", "The CA's renewal window is read.";
    ACME_KEY_CHANGE = "acme.key-change", "An account's key is changed.";
    ACME_ACCOUNT = "acme.account", "An account is read or its contacts are changed.";
    FILE_MASTER_KEY = "file.master-key", "The master key is written.";
    FILE_ADMIN_TOKEN = "file.admin-token", "The admin token is written.";
    FILE_EDGE = "file.edge", "A certificate or a list of an edge is written or removed.";
    FILE_DATABASE = "file.database", "A database file is put in place of another, or a backup is put down.";
    FILE_OTHER = "file.other", "Any other file is written.";
    EDGE_HAPROXY = "edge.haproxy", "A command changes what HAProxy holds.";
    EDGE_RELOAD = "edge.reload", "The reload command of an edge is run.";
}

impl Point {
    /// The name used in `HOLDFAST_CRASH` and in the recording.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Runs an effect between its two crash points.
///
/// A future dropped half-way reaches only the first: the effect itself may or may not have happened.
pub async fn around<T>(point: Point, effect: impl Future<Output = T>) -> T {
    let Some(armed) = armed() else { return effect.await };
    let occurrence = armed.reached(point);
    armed.crash_if(point, occurrence, Side::Before);
    let result = effect.await;
    armed.crash_if(point, occurrence, Side::After);
    result
}

/// Runs a blocking effect between its two crash points.
pub fn around_sync<T>(point: Point, effect: impl FnOnce() -> T) -> T {
    let Some(armed) = armed() else { return effect() };
    let occurrence = armed.reached(point);
    armed.crash_if(point, occurrence, Side::Before);
    let result = effect();
    armed.crash_if(point, occurrence, Side::After);
    result
}

/// On which side of the effect the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The effect never happens.
    Before,
    /// The effect happened, and nobody was told.
    After,
}

/// What `HOLDFAST_CRASH` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Where.
    pub point: Point,
    /// The how-manieth time the point is reached, from 1.
    pub occurrence: u64,
    /// On which side.
    pub side: Side,
}

/// Why a value of `HOLDFAST_CRASH` means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "HOLDFAST_CRASH must be NAME:OCCURRENCE:before|after with a known point and an occurrence from 1, not {0:?}"
)]
pub struct InvalidCrash(String);

impl FromStr for Crash {
    type Err = InvalidCrash;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| InvalidCrash(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Crash> {
    let mut parts = text.split(':');
    let name = parts.next()?;
    let point = Point::ALL.iter().copied().find(|point| point.name() == name)?;
    let occurrence = parts.next()?.parse().ok().filter(|occurrence| *occurrence > 0)?;
    let side = match parts.next()? {
        "before" => Side::Before,
        "after" => Side::After,
        _ => return None,
    };
    parts.next().is_none().then_some(Crash { point, occurrence, side })
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{}:{}:{side}", self.point, self.occurrence)
    }
}

struct Armed {
    crash: Option<Crash>,
    record: Option<File>,
    reached: Mutex<HashMap<Point, u64>>,
}

impl Armed {
    /// Counts and records one more occurrence.
    fn reached(&self, point: Point) -> u64 {
        let mut counts = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(point).or_insert(0);
        *count += 1;
        if let Some(mut record) = self.record.as_ref() {
            // One write on a file opened for appending: lines of several processes never mix.
            if let Err(error) = record.write_all(format!("{point}\n").as_bytes()) {
                refuse(&format!("HOLDFAST_CRASH_RECORD cannot be written: {error}"));
            }
        }
        *count
    }

    fn crash_if(&self, point: Point, occurrence: u64, side: Side) {
        if self.crash == Some(Crash { point, occurrence, side }) {
            std::process::abort();
        }
    }
}

fn armed() -> Option<&'static Armed> {
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    ARMED.get_or_init(arm).as_ref()
}

#[expect(clippy::disallowed_methods, reason = "a test's order to this process, not configuration")]
fn arm() -> Option<Armed> {
    let crash = std::env::var("HOLDFAST_CRASH").ok().filter(|text| !text.is_empty());
    let record = std::env::var_os("HOLDFAST_CRASH_RECORD").filter(|path| !path.is_empty());
    if crash.is_none() && record.is_none() {
        return None;
    }
    let crash = crash
        .map(|text| text.parse().unwrap_or_else(|error: InvalidCrash| refuse(&error.to_string())));
    let record = record.map(|path| {
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        opened.unwrap_or_else(|error| {
            refuse(&format!("HOLDFAST_CRASH_RECORD={}: {error}", path.display()))
        })
    });
    Some(Armed { crash, record, reached: Mutex::default() })
}

/// A crash test that cannot be carried out as written must not pass as if it had been.
fn refuse(problem: &str) -> ! {
    eprintln!("{problem}");
    std::process::exit(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> =
            Point::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), Point::ALL.len());
    }

    #[test]
    fn what_is_displayed_parses_again() {
        for point in Point::ALL.iter().copied() {
            for side in [Side::Before, Side::After] {
                let crash = Crash { point, occurrence: 7, side };
                assert_eq!(crash.to_string().parse(), Ok(crash));
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let cases = [
            "",
            "store.claim",
            "store.claim:1",
            "store.claim:0:after",
            "store.claim:1:during",
            "nowhere:1:after",
            "store.claim:1:after:x",
        ];
        for text in cases {
            assert!(text.parse::<Crash>().is_err(), "{text:?} was accepted");
        }
    }
}
