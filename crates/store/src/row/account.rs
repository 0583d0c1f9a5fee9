//! An account's row, its key still sealed, and the terms it agreed to.

use holdfast_model::Timestamp;

use super::Fields;
use crate::{
    Account, AccountId, OrderLimits, Result, Secret, Terms,
    budget::Budget,
    moment::{LONGEST_PAUSE, honest},
};

/// The budget as it stands.
pub(crate) fn budget(row: &impl Fields, limits: OrderLimits) -> Result<Budget> {
    Ok(Budget::new(row.maybe_at("budget_at")?, limits.per_3h))
}

/// The pause, if there is one still.
pub(crate) fn paused_until(row: &impl Fields, now: Timestamp) -> Result<Option<Timestamp>> {
    let Some(until) = row.maybe_at("paused_until")? else { return Ok(None) };
    let until = honest(until, row.maybe_at("paused_at")?, now, LONGEST_PAUSE);
    Ok(Some(until).filter(|until| *until > now))
}

pub(crate) fn account(
    row: &impl Fields,
    limits: Option<OrderLimits>,
    key: Secret,
    next_key: Option<Secret>,
) -> Result<Account> {
    let now = row.at("now")?;
    let paused_until = paused_until(row, now)?;
    let slot = |limits| -> Result<Option<Timestamp>> { Ok(budget(row, limits)?.next_at(now)) };
    Ok(Account {
        id: AccountId(row.id("id")?),
        directory: row.text("directory")?,
        key,
        next_key,
        email: row.maybe_text("email")?,
        url: row.maybe_text("url")?,
        pause_reason: row.maybe_text("pause_reason")?.filter(|_| paused_until.is_some()),
        paused_until,
        unusable: row.maybe_text("unusable")?,
        orders_left: limits
            .map(|limits| budget(row, limits).map(|budget| budget.available(now)))
            .transpose()?,
        next_slot_at: limits.map(slot).transpose()?.flatten(),
    })
}

pub(crate) fn terms(row: &impl Fields) -> Result<Terms> {
    Ok(Terms {
        directory: row.text("directory")?,
        url: row.text("url")?,
        seen_at: row.at("seen_at")?,
        agreed_at: row.maybe_at("agreed_at")?,
    })
}
