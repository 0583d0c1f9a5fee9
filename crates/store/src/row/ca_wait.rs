//! The row of what waits for a CA.

use holdfast_model::WaitScope;

use super::Fields;
use crate::{
    CaWait, Result,
    moment::{LONGEST_PAUSE, honest},
};

/// None when it is over, by whatever clock it was written, or of a kind that only a newer release knows.
pub(crate) fn ca_wait(row: &impl Fields) -> Result<Option<CaWait>> {
    let Some(scope) = WaitScope::parse(&row.text("scope")?) else { return Ok(None) };
    let (now, noted_at) = (row.at("now")?, row.at("noted_at")?);
    let until = honest(row.at("until")?, Some(noted_at), now, LONGEST_PAUSE);
    let wait =
        CaWait { scope, key: row.text("key")?, until, reason: row.text("reason")?, noted_at };
    Ok(Some(wait).filter(|wait| wait.until > now))
}
