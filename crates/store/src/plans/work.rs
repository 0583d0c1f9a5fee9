//! How much work SQLite does for each call of the store, whatever its plan says of itself: steps of its virtual machine.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use sqlx::SqliteConnection;

/// Told after so many steps.
const TOLD_EVERY: i32 = 1_000;

/// By call, the thousands of steps of its largest statement.
static LARGEST: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts the steps of the next statement.
pub(crate) async fn measure(at: &'static str, connection: &mut SqliteConnection) {
    let mut handle = connection.lock_handle().await.unwrap();
    let mut thousands = 0;
    handle.set_progress_handler(TOLD_EVERY, move || {
        thousands += 1;
        let mut largest = LARGEST.lock().unwrap_or_else(PoisonError::into_inner);
        let known = largest.entry(at).or_default();
        *known = thousands.max(*known);
        true
    });
}

/// What was measured since the last time.
pub(super) fn taken() -> BTreeMap<&'static str, u64> {
    std::mem::take(&mut *LARGEST.lock().unwrap_or_else(PoisonError::into_inner))
}
