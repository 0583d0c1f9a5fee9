//! Rows of edges, of what they should serve and of what they were seen serving.

use holdfast_model::{DomainId, Note, Timestamp};

use super::Fields;
use crate::{CertificateId, Change, DeploymentStatus, Edge, EdgeId, Result, Revision};

pub(crate) fn revision(row: &impl Fields) -> Result<Revision> {
    Ok(Revision { epoch: row.number("epoch")?, number: row.number("revision")? })
}

pub(crate) fn edge(row: &impl Fields) -> Result<Edge> {
    Ok(Edge {
        id: EdgeId(row.id("id")?),
        name: row.text("name")?,
        group: row.text("edge_group")?,
        live: row.flag("live")?,
        last_seen_at: row.at("last_seen_at")?,
        revision: revision(row)?,
        behind: u64::try_from(row.number("behind")?).unwrap_or(0),
        last_error: row.note("error_code", "error_detail")?,
    })
}

pub(crate) fn change(row: &impl Fields, epoch: i64) -> Result<Change> {
    let certificate = match (row.maybe_id("certificate_id")?, row.maybe_text("sha256")?) {
        (Some(id), Some(sha256)) => Some((CertificateId(id), sha256)),
        _ => None,
    };
    Ok(Change {
        name: row.hostname("name")?,
        domain: DomainId(row.id("domain_id")?),
        certificate,
        revision: Revision { epoch, number: row.number("revision")? },
    })
}

/// What one edge of the group says of a domain, beside what is desired.
pub(crate) struct EdgeView {
    edge: String,
    live: bool,
    /// Has it applied everything up to the deployment?
    reached: bool,
    sha256: Option<String>,
    error: Option<Note>,
    seen_at: Option<Timestamp>,
}

/// Puts together how a deployment stands: one row per edge of the group, or one without an edge.
pub(crate) fn report(rows: &[impl Fields]) -> Result<DeploymentStatus> {
    let Some(first) = rows.first() else { return Ok(DeploymentStatus::default()) };
    let mut status = DeploymentStatus::default();
    let deployed_at = first.maybe_at("updated_at")?;
    let desired = first.maybe_text("desired")?;
    if let Some(number) = first.maybe_number("deployed")? {
        status.revision = Some(Revision { epoch: first.number("epoch")?, number });
        status.tombstone = first.maybe_id("certificate_id")?.is_none();
    }
    for row in rows {
        if let Some(view) = view(row)? {
            add(&mut status, desired.as_deref(), deployed_at, view);
        }
    }
    Ok(status)
}

fn view(row: &impl Fields) -> Result<Option<EdgeView>> {
    let Some(edge) = row.maybe_text("edge")? else { return Ok(None) };
    Ok(Some(EdgeView {
        edge,
        live: row.flag("live")?,
        reached: row.flag("reached")?,
        sha256: row.maybe_text("seen_sha256")?,
        error: row.note("error_code", "error_detail")?,
        seen_at: row.maybe_at("seen_at")?,
    }))
}

fn add(
    status: &mut DeploymentStatus,
    desired: Option<&str>,
    deployed_at: Option<Timestamp>,
    view: EdgeView,
) {
    if let (Some(sha256), Some(at)) = (&view.sha256, view.seen_at)
        && status.seen.as_ref().is_none_or(|(_, before)| *before < at)
    {
        status.seen = Some((sha256.clone(), at));
    }
    if !view.live {
        return;
    }
    status.live += 1;
    // A report from before the deployment says nothing of it: neither that the name is gone nor that it is refused.
    let looked_since = view.seen_at.is_some_and(|seen| deployed_at.is_some_and(|at| seen > at));
    let as_desired = match desired {
        Some(_) => view.sha256.as_deref() == desired,
        // A look that failed is not one that saw nothing.
        None => view.sha256.is_none() && view.error.is_none() && (view.reached || looked_since),
    };
    match view.error {
        // Nothing was deployed: nobody can be behind.
        _ if status.revision.is_none() => {}
        _ if as_desired => status.serving += 1,
        Some(error) if looked_since => status.refused.push((view.edge, error)),
        _ => status.behind += 1,
    }
}
