//! A task's row.

use std::time::Duration;

use holdfast_model::Timestamp;

use super::Fields;
use crate::{Result, TaskStatus};

pub(crate) fn task(row: &impl Fields, now: Timestamp) -> Result<TaskStatus> {
    let next_at = row.at("next_at")?;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(TaskStatus {
        name: row.text("name")?,
        lease: row.text("lease")?,
        instance: row.text("instance")?,
        term: row.number("term")?,
        runs: count(row.number("runs")?),
        ran_at: row.at("ran_at")?,
        took: Duration::from_micros(count(row.number("took_us")?)),
        ok: row.flag("ok")?,
        outcome: row.text("outcome")?,
        next_at,
        next_in: next_at.since(now),
    })
}
