//! A domain's row, joined with the facts of its newest certificate.

use std::collections::BTreeMap;

use holdfast_model::{CertificateSummary, Domain, DomainId, State, Wanted};

use uuid::Uuid;

use super::{Fields, corrupt};
use crate::{Claimed, Error, OrderId, QueueStanding, Result};

/// The columns of a domain `d` with its certificate `c`, for `concat!`.
macro_rules! domain_columns {
    () => {
        "d.id, d.name, d.tenant, d.resource, d.target, d.edge_group, d.labels, d.orchestration_id, d.state, d.attempt, d.entered_at, \
         d.next_attempt_at, d.queued_at, d.failures, d.failing_since, d.error_code, d.error_detail, d.order_id, d.wanted, \
         d.removing_since, d.revoke, d.removed_at, d.lapses, d.created_at, d.updated_at, d.version, d.claim_epoch, d.incarnation, d.due_at, \
         c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory, c.created_at AS certificate_since"
    };
}
pub(crate) use domain_columns;

pub(crate) fn domain(row: &impl Fields) -> Result<Domain> {
    let (state, foreign_state) = state(row.text("state")?);
    let wanted = row.maybe_text("wanted")?;
    Ok(Domain {
        id: DomainId(row.id("id")?),
        name: row.hostname("name")?,
        tenant: row.maybe_text("tenant")?,
        resource: row.text("resource")?,
        target: row.hostname("target")?,
        edge_group: row.text("edge_group")?,
        labels: labels(&row.text("labels")?)?,
        orchestration_id: row.text("orchestration_id")?,
        state,
        foreign_state,
        attempt: row.count("attempt")?,
        entered_at: row.at("entered_at")?,
        next_attempt_at: row.maybe_at("next_attempt_at")?,
        queued_at: row.maybe_at("queued_at")?,
        failures: row.count("failures")?,
        failing_since: row.maybe_at("failing_since")?,
        last_error: row.note("error_code", "error_detail")?,
        order_open: row.maybe_id("order_id")?.is_some(),
        certificate: summary(row)?,
        certificate_since: row.maybe_at("certificate_since")?,
        wanted: wanted.as_deref().and_then(Wanted::parse),
        removing_since: row.maybe_at("removing_since")?,
        revoke_on_removal: row.flag("revoke")?,
        removed_at: row.maybe_at("removed_at")?,
        lapses: row.count("lapses")?,
        created_at: row.at("created_at")?,
        updated_at: row.at("updated_at")?,
        version: row.number("version")?,
    })
}

/// A state that only a newer release knows keeps its name, and is nothing to work on.
fn state(name: String) -> (State, Option<String>) {
    name.parse().map_or((State::Failed, Some(name)), |state| (state, None))
}

/// As [`domain`], but nothing for a row that cannot be read: it must not spoil the list of all others.
pub(crate) fn listed(row: &impl Fields) -> Option<Domain> {
    domain(row).map_err(|error| unreadable(row, &error)).ok()
}

/// What was claimed, and the ids of those rows that cannot be read, which nobody can work on.
pub(crate) fn sorted_out(rows: &[impl Fields]) -> Result<(Vec<Claimed>, Vec<Uuid>)> {
    let (mut work, mut aside) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match claimed(row) {
            Ok(claimed) => work.push(claimed),
            Err(error) => {
                unreadable(row, &error);
                aside.push(row.id("id")?);
            }
        }
    }
    Ok((work, aside))
}

fn unreadable(row: &impl Fields, error: &Error) {
    let domain = row.id("id").unwrap_or_default();
    tracing::error!(%domain, error = error as &dyn std::error::Error, "a domain's row cannot be read; it is put aside");
}

pub(crate) fn claimed(row: &impl Fields) -> Result<Claimed> {
    let domain = domain(row)?;
    if let Some(state) = domain.foreign_state {
        return Err(corrupt("state", state));
    }
    Ok(Claimed {
        domain,
        epoch: row.number("claim_epoch")?,
        incarnation: row.maybe_id("incarnation")?,
        order: row.maybe_id("order_id")?.map(OrderId),
    })
}

/// How it stands in the queue for orders; none for who does not wait there.
pub(crate) fn standing(row: &impl Fields) -> Result<QueueStanding> {
    let count = |column| Ok::<_, Error>(u64::try_from(row.number(column)?).unwrap_or(0));
    let place = crate::lane::place(count("own")?, count("other")?, row.flag("renews")?);
    Ok(QueueStanding { place, is_charged: row.flag("is_charged")? })
}

fn summary(row: &impl Fields) -> Result<Option<CertificateSummary>> {
    row.maybe_text("sha256")?.map(|_| super::certificate(row)).transpose()
}

fn labels(text: &str) -> Result<BTreeMap<String, String>> {
    serde_json::from_str(text)
        .map_err(|_| Error::Corrupt { what: "labels", value: text.to_owned() })
}
