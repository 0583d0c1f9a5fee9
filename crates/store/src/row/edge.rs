//! Rows of edges, of what they should serve and of what they were seen serving.

use std::collections::HashMap;

use holdfast_model::{DomainId, Note, Timestamp};

use super::{Fields, corrupt};
use crate::{
    Adoption, Asked, CertificateId, Change, DeploymentStatus, Edge, EdgeAgent, EdgeId,
    EdgeIdentity, Found, PROXY_DOWN, Refusal, Result, Revision, Seen, Stranger,
};

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
        agent: EdgeAgent {
            version: row.maybe_text("agent_version")?,
            target: row.maybe_text("agent_target")?,
            mode: row.maybe_text("agent_mode")?,
        },
        refusals: u64::try_from(row.number("refusals")?).unwrap_or(0),
        strangers: u64::try_from(row.number("strangers")?).unwrap_or(0),
        shadows: u64::try_from(row.number("shadows")?).unwrap_or(0),
    })
}

pub(crate) fn identity(row: &impl Fields) -> Result<EdgeIdentity> {
    Ok(EdgeIdentity { id: EdgeId(row.id("id")?), group: row.text("edge_group")? })
}

pub(crate) fn refusal(row: &impl Fields) -> Result<Refusal> {
    let note = row.note("error_code", "error_detail")?;
    Ok(Refusal {
        domain: DomainId(row.id("domain_id")?),
        name: row.hostname("name")?,
        sha256: row.maybe_text("sha256")?,
        note: note.ok_or_else(|| corrupt("refusal", "nothing"))?,
        seen_at: row.at("seen_at")?,
    })
}

pub(crate) fn found(row: &impl Fields) -> Result<Found> {
    let refused = row.note("error_code", "error_detail")?.map(Asked::Refused);
    let asked = row.flag("asked")?.then_some(Asked::Waiting).or(refused);
    Ok(Found { stranger: stranger(row)?, asked })
}

fn stranger(row: &impl Fields) -> Result<Stranger> {
    let names = row.text("names")?;
    Ok(Stranger {
        file: row.text("file")?,
        names: serde_json::from_str(&names).map_err(|_| corrupt("names of a stranger", names))?,
        sha256: row.maybe_text("sha256")?,
        shadows: row.flag("shadows")?,
    })
}

pub(crate) fn adoption(row: &impl Fields) -> Result<Adoption> {
    Ok(Adoption { file: row.text("file")?, name: row.hostname("name")? })
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
    not_after: Option<Timestamp>,
    /// What it last said of itself as a whole.
    complaint: Option<Note>,
}

/// When something was deployed, and when that is asked.
#[derive(Clone, Copy)]
struct Deployed {
    at: Option<Timestamp>,
    now: Timestamp,
}

impl Deployed {
    /// Did the edge look since? Where a wrong clock put either moment in the future, what the edge
    /// says to have applied decides.
    fn was_before(self, view: &EdgeView) -> bool {
        let (Some(at), Some(seen)) = (self.at, view.seen_at) else { return false };
        if at > self.now || seen > self.now { view.reached } else { seen > at }
    }
}

/// Puts together how a deployment stands: one row per edge of the group, or one without an edge.
pub(crate) fn report(rows: &[impl Fields]) -> Result<DeploymentStatus> {
    let Some(first) = rows.first() else { return Ok(DeploymentStatus::default()) };
    let mut status = DeploymentStatus::default();
    let deployed = Deployed { at: first.maybe_at("updated_at")?, now: first.at("now")? };
    let desired = first.maybe_text("desired")?;
    if let Some(number) = first.maybe_number("deployed")? {
        status.revision = Some(Revision { epoch: first.number("epoch")?, number });
        status.tombstone = first.maybe_id("certificate_id")?.is_none();
    }
    for row in rows {
        if let Some(view) = view(row)? {
            add(&mut status, desired.as_deref(), deployed, view);
        }
    }
    Ok(status)
}

/// The same of many domains: rows that carry `domain` and stand together by it.
pub(crate) fn reports(rows: &[impl Fields]) -> Result<HashMap<DomainId, DeploymentStatus>> {
    let ids: Vec<_> = rows.iter().map(|row| row.id("domain")).collect::<Result<_>>()?;
    let mut found = HashMap::new();
    let mut rest = rows;
    for same in ids.chunk_by(|one, other| one == other) {
        let (own, others) = rest.split_at(same.len());
        rest = others;
        if let Some(id) = same.first() {
            found.insert(DomainId(*id), report(own)?);
        }
    }
    Ok(found)
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
        not_after: row.maybe_at("seen_not_after")?,
        complaint: row.note("complaint_code", "complaint_detail")?,
    }))
}

fn add(status: &mut DeploymentStatus, desired: Option<&str>, deployed: Deployed, view: EdgeView) {
    if !view.live {
        return;
    }
    status.live += 1;
    // What was seen before a proxy went away is not served now.
    let is_down = view.complaint.as_ref().is_some_and(|note| note.code == PROXY_DOWN);
    if let (Some(sha256), Some(at)) = (&view.sha256, view.seen_at.map(|at| at.min(deployed.now)))
        && !is_down
        && status.seen.as_ref().is_none_or(|before| before.at < at)
    {
        status.seen = Some(Seen { sha256: sha256.clone(), not_after: view.not_after, at });
    }
    // A report from before the deployment says nothing of it: neither that the name is gone nor that it is refused.
    let looked_since = deployed.was_before(&view);
    let as_desired = match desired {
        Some(_) => !is_down && view.sha256.as_deref() == desired,
        // A look that failed is not one that saw nothing.
        None => view.sha256.is_none() && view.error.is_none() && (view.reached || looked_since),
    };
    // Where the whole proxy is away, what was seen of one name says nothing more.
    let refusal = view.error.filter(|_| looked_since && !is_down);
    match (refusal, view.complaint) {
        // Nothing was deployed: nobody can be behind.
        _ if status.revision.is_none() => {}
        _ if as_desired => status.serving += 1,
        (Some(note), _) => status.refused.push((view.edge, note)),
        // One that is out of order as a whole would hold up the domains of all the others.
        (None, Some(note)) => status.broken.push((view.edge, note)),
        (None, None) => status.behind += 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_look_counts_if_it_was_made_since_or_if_the_edge_has_applied_what_a_wrong_clock_dated() {
        let now = Timestamp::from_seconds(1_800_000_000);
        let (before, later) = (now.minus(Duration::from_secs(9)), now.plus(Duration::from_secs(9)));
        let earlier = before.minus(Duration::from_secs(9));
        let looked = |deployed, seen, reached| {
            let view = EdgeView {
                edge: String::new(),
                live: true,
                reached,
                sha256: None,
                error: None,
                seen_at: seen,
                not_after: None,
                complaint: None,
            };
            Deployed { at: Some(deployed), now }.was_before(&view)
        };
        assert!(looked(earlier, Some(before), false) && !looked(before, Some(earlier), true));
        assert!(!looked(before, None, true));
        // Either moment is in the future.
        assert!(looked(later, Some(before), true) && !looked(later, Some(before), false));
        assert!(looked(before, Some(later), true) && !looked(before, Some(later), false));
    }
}
