//! A claim's row.

use holdfast_model::{DomainId, Hostname};

use super::{Fields, corrupt};
use crate::{Claim, Result};

pub(crate) fn claim(row: &impl Fields) -> Result<Claim> {
    let name = row.maybe_text("name")?;
    let parse = |text: String| Hostname::parse_host(&text).map_err(|_| corrupt("name", text));
    Ok(Claim {
        resource: row.text("resource")?,
        name: name.map(parse).transpose()?,
        orchestration_id: row.text("orchestration_id")?,
        domain_id: row.maybe_id("domain_id")?.map(DomainId),
        created_at: row.at("created_at")?,
        released_at: row.maybe_at("released_at")?,
    })
}
