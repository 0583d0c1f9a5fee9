//! A replica's row.

use super::Fields;
use crate::{Replica, Result};

pub(crate) fn replica(row: &impl Fields) -> Result<Replica> {
    Ok(Replica {
        instance: row.text("instance")?,
        incarnation: row.id("incarnation")?,
        url: row.text("url")?,
        role: row.text("role")?,
        version: row.text("version")?,
        registered_at: row.at("registered_at")?,
        started_at: row.at("started_at")?,
        last_heartbeat_at: row.at("beat_at")?,
        healthy: row.flag("healthy")?,
        draining: row.flag("draining")?,
    })
}
