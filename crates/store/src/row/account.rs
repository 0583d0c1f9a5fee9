//! An account's row, its key still sealed, and the terms it agreed to.

use holdfast_model::Timestamp;

use super::Fields;
use crate::{
    Account, AccountId, OrderLimits, Result, Secret, Terms,
    budget::{Allowed, Budget, Pause},
    moment::{LONGEST_PAUSE, honest},
};

/// The budget as it stands.
pub(crate) fn budget(row: &impl Fields, limits: OrderLimits) -> Result<Budget> {
    Ok(Budget::new(row.maybe_at("budget_at")?, limits.per_3h))
}

/// The CA's pause, if there is one still.
pub(crate) fn paused_until(row: &impl Fields, now: Timestamp) -> Result<Option<Timestamp>> {
    let Some(until) = row.maybe_at("paused_until")? else { return Ok(None) };
    let until = honest(until, row.maybe_at("paused_at")?, now, LONGEST_PAUSE);
    Ok(Some(until).filter(|until| *until > now))
}

/// The pause that a person set, if there is one still.
pub(crate) fn halt(row: &impl Fields, now: Timestamp) -> Result<Option<Pause>> {
    let Some(since) = row.maybe_at("halted_at")? else { return Ok(None) };
    let until = row.maybe_at("halted_until")?;
    // As long as it was set for, whatever clock it was set by.
    let until = until.map(|until| honest(until, Some(since), now, until.since(since)));
    Ok(Some(Pause { until }).filter(|pause| pause.until.is_none_or(|until| until > now)))
}

/// Whatever keeps the account from ordering.
pub(crate) fn pause(row: &impl Fields, now: Timestamp) -> Result<Option<Pause>> {
    let asked = paused_until(row, now)?.map(|until| Pause { until: Some(until) });
    Ok(Pause::longest(asked.into_iter().chain(halt(row, now)?)))
}

/// Whether nobody in the queue can be given an order, and when the clock opens it. A budget that is further away than it can be is
/// none to go by.
pub(crate) fn closed(
    row: &impl Fields,
    limits: OrderLimits,
    now: Timestamp,
    renewing: bool,
) -> Result<(bool, Option<Timestamp>)> {
    if let Some(pause) = pause(row, now)? {
        return Ok((true, pause.until));
    }
    let budget = budget(row, limits)?;
    let opens_at = budget.next_at(now).filter(|_| !renewing && !budget.is_beyond_capacity(now));
    Ok((opens_at.is_some(), opens_at))
}

/// How many orders these rows were given, and how many of those were charged.
pub(crate) fn given(rows: &[impl Fields]) -> Result<Allowed> {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let renew = rows.iter().map(|row| row.flag("renews")).collect::<Result<Vec<_>>>()?;
    let charged = renew.iter().filter(|renews| !**renews).count();
    Ok(Allowed { orders: count(rows.len()), charged: count(charged) })
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
        halt: super::halt_by(row, now)?,
        unusable: row.maybe_text("unusable")?,
        pin: row.maybe_text("pin")?,
        failing_since: row.maybe_at("failing_since")?,
        failure: row.maybe_text("failure")?,
        asked_again_at: row.maybe_at("asked_again_at")?,
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
        replaced: row.maybe_text("replaced")?,
    })
}
