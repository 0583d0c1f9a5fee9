//! Every statement of both stores is run on a store that holds a hundred thousand of everything, and none may read more than it
//! has to: with statistics, without any, and with those of an earlier, smaller time.
//!
//! `sql` tells here what it is called with. [`tour`] calls everything; [`coverage`] reads the sources and names each statement
//! that it left out. So a new statement is either looked at or fails the test, whether or not somebody thought of it.

mod coverage;
#[path = "../tests/it/kit.rs"]
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with the integration tests")]
mod kit;
mod low_water;
mod moments;
mod postgres;
mod sqlite;
mod tour;
mod work;

pub(crate) use self::work::measure;

use std::{
    collections::BTreeSet,
    panic::Location,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A statement that was made, and where in the sources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Made {
    file: &'static str,
    line: u32,
    column: u32,
    text: &'static str,
}

static MADE: Mutex<BTreeSet<Made>> = Mutex::new(BTreeSet::new());

fn made() -> MutexGuard<'static, BTreeSet<Made>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store makes a statement.
#[track_caller]
pub(crate) fn note(text: &'static str) {
    let at = Location::caller();
    made().insert(Made { file: at.file(), line: at.line(), column: at.column(), text });
}

/// The statements that were made in this part of the sources.
fn made_in(part: &str) -> Vec<Made> {
    made().iter().filter(|made| made.file.contains(part)).cloned().collect()
}

/// On one line, for a message.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A statement that may read much, and why.
struct Exception {
    /// What only its text contains.
    contains: &'static str,
    #[expect(dead_code, reason = "it is for people")]
    because: &'static str,
}

fn is_excepted(exceptions: &[Exception], text: &str) -> bool {
    let text = words(text);
    exceptions.iter().any(|exception| text.contains(&words(exception.contains)))
}
