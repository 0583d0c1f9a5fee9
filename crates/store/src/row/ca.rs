//! An account's row as it is shown, without its keys.

use holdfast_model::Timestamp;

use super::{
    Fields,
    account::{budget, halt, paused_until},
};
use crate::{AccountId, CaAccount, Halt, OrderLimits, OtherAccount, QueueCounts, Result};

/// The pause that a person set, with who did.
pub(crate) fn halt_by(row: &impl Fields, now: Timestamp) -> Result<Option<Halt>> {
    let Some(pause) = halt(row, now)? else { return Ok(None) };
    let (since, by) = (row.at("halted_at")?, row.text("halted_by")?);
    Ok(Some(Halt { since, until: pause.until, by }))
}

pub(crate) fn ca_account(row: &impl Fields, limits: OrderLimits) -> Result<CaAccount> {
    let now = row.at("now")?;
    let left = budget(row, limits)?;
    let since = row.maybe_at("paused_at")?;
    Ok(CaAccount {
        id: AccountId(row.id("id")?),
        directory: row.text("directory")?,
        url: row.maybe_text("url")?,
        paused: paused_until(row, now)?.map(|until| (since, until)),
        pause_reason: row.maybe_text("pause_reason")?,
        unusable: row.maybe_text("unusable")?,
        halt: halt_by(row, now)?,
        resumed: row.maybe_at("resumed_at")?.zip(row.maybe_text("resumed_by")?),
        failing: row.maybe_at("failing_since")?.zip(row.maybe_text("failure")?),
        orders_left: left.available(now),
        next_slot_at: left.next_at(now),
        full_at: left.taken(now, 0).full_at().filter(|at| *at > now),
        in_flight: row.count("in_flight")?,
        now,
    })
}

pub(crate) fn queue_counts(row: &impl Fields) -> Result<QueueCounts> {
    let count = |column| Ok::<_, crate::Error>(u64::try_from(row.number(column)?).unwrap_or(0));
    let (charged, renewals) = (count("new")? + count("charged")?, count("renewals")?);
    Ok(QueueCounts { charged, renewals })
}

pub(crate) fn other_account(row: &impl Fields) -> Result<OtherAccount> {
    Ok(OtherAccount { id: AccountId(row.id("id")?), is_served: row.flag("is_served")? })
}
