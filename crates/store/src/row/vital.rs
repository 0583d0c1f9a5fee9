//! Vital signs as a row.

use holdfast_model::Timestamp;

use super::Fields;
use crate::{Expiring, Result, Vitals};

fn many(row: &impl Fields, column: &'static str) -> Result<u64> {
    Ok(u64::try_from(row.number(column)?).unwrap_or(0))
}

pub(crate) fn vitals(row: &impl Fields, now: Timestamp, expiring: Vec<u64>) -> Result<Vitals> {
    Ok(Vitals {
        now,
        due: many(row, "due")?,
        next_due_at: row.maybe_at("next_due_at")?,
        queued: many(row, "queued")?,
        queued_since: row.maybe_at("queued_since")?,
        orders: many(row, "orders")?,
        challenges: many(row, "challenges")?,
        first_expiry: row.maybe_at("first_expiry")?,
        expiring,
        deliveries: many(row, "deliveries")?,
    })
}

pub(crate) fn expiring(row: &impl Fields) -> Result<Expiring> {
    Ok(Expiring {
        name: row.hostname("name")?,
        not_before: row.at("not_before")?,
        not_after: row.at("not_after")?,
    })
}
