//! The store's clock. SQLite has none of its own that counts finer than milliseconds, and one process has one clock.

use holdfast_model::Timestamp;
use time::OffsetDateTime;

#[expect(clippy::disallowed_methods, reason = "here this process's clock is the store's clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::from(OffsetDateTime::now_utc())
}
