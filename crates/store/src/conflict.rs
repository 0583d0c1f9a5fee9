//! Who owns a name, a resource, an orchestration: the judgement on what was found in the way of a request. Pure; the rows are
//! looked up by the store, after the database has refused the insert.

use std::collections::BTreeMap;

use holdfast_model::{Domain, Hostname};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Claim, ClaimRequest, Error, Holder, NewDomain, Result, row::Fields};

/// The columns of a claim `k` with its domain `d` and certificate `c`, for `concat!`.
macro_rules! standing_columns {
    () => {
        concat!(
            "k.id AS claim_id, k.resource AS claim_resource, k.name AS claim_name, \
             k.orchestration_id AS claim_orchestration_id, k.domain_id, k.created_at AS claimed_at, k.released_at, \
             d.original, d.import_sha256, ",
            $crate::row::domain_columns!()
        )
    };
}
pub(crate) use standing_columns;

/// A claim that stands in the way, or is the request's own.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) id: Uuid,
    pub(crate) claim: Claim,
    domain: Option<Domain>,
    original: Option<Original>,
    import_sha256: Option<String>,
}

/// What a request asked for, before people changed it: a replay of the request is compared with this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Original {
    tenant: Option<String>,
    /// None where none was given and the id stood in.
    resource: Option<String>,
    edge_group: String,
    labels: BTreeMap<String, String>,
}

impl Original {
    /// Of a domain that nobody has changed yet.
    pub(crate) fn of(domain: &Domain) -> Self {
        let resource = Some(domain.resource.clone());
        Self {
            tenant: domain.tenant.clone(),
            resource: resource.filter(|resource| *resource != domain.id.to_string()),
            edge_group: domain.edge_group.clone(),
            labels: domain.labels.clone(),
        }
    }

    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Standing {
    pub(crate) fn read(row: &impl Fields) -> Result<Self> {
        let domain = match row.maybe_id("id")? {
            Some(_) => Some(crate::row::domain(row)?),
            None => None,
        };
        let original = row.maybe_text("original")?;
        Ok(Self {
            id: row.id("claim_id")?,
            claim: claim(row)?,
            domain,
            original: original.and_then(|text| serde_json::from_str(&text).ok()),
            import_sha256: row.maybe_text("import_sha256")?,
        })
    }

    fn is_live(&self) -> bool {
        self.claim.released_at.is_none()
    }

    fn holder(&self) -> Holder {
        Holder { resource: self.claim.resource.clone(), since: self.claim.created_at }
    }

    /// The first field in which a request differs from the one this stands for.
    fn difference(&self, domain: &Domain, new: &NewDomain) -> Option<&'static str> {
        let original = self.original.clone().unwrap_or_else(|| Original::of(domain));
        let import = new.import.as_ref().map(|import| &import.certificate.summary.sha256);
        let differs = [
            ("name", new.name != domain.name),
            ("tenant", new.tenant != original.tenant),
            ("resource", new.resource != original.resource),
            ("target", new.target_given && new.target != domain.target),
            ("edge_group", new.edge_group != original.edge_group),
            ("labels", new.labels != original.labels),
            ("certificate", import != self.import_sha256.as_ref()),
        ];
        differs.into_iter().find(|(_, differs)| *differs).map(|(field, _)| field)
    }
}

fn claim(row: &impl Fields) -> Result<Claim> {
    let name = row.maybe_text("claim_name")?;
    let name = name.map(|text| {
        Hostname::parse_host(&text).map_err(|_| Error::Corrupt { what: "name", value: text })
    });
    Ok(Claim {
        resource: row.text("claim_resource")?,
        name: name.transpose()?,
        orchestration_id: row.text("claim_orchestration_id")?,
        domain_id: row.maybe_id("domain_id")?.map(holdfast_model::DomainId),
        created_at: row.at("claimed_at")?,
        released_at: row.maybe_at("released_at")?,
    })
}

/// What is to be done about a request to add a domain.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is a replay: this is its domain.
    Same(Box<Domain>),
    /// Its orchestration has claimed the resource before: the domain moves in there.
    Adopt(Uuid),
    /// It is refused.
    Refused(Error),
    /// Nothing stands in the way (any more).
    Free,
}

/// Judges a request to add a domain by what was found.
pub(crate) fn judge(new: &NewDomain, found: &[Standing]) -> Verdict {
    let own = found.iter().find(|one| one.claim.orchestration_id == new.orchestration_id);
    if let Some(own) = own {
        return replay(new, own, found);
    }
    let mut live = found.iter().filter(|one| one.is_live());
    let name = live.clone().find(|one| one.claim.name.as_ref() == Some(&new.name));
    if let Some(holder) = name {
        return Verdict::Refused(Error::NameInUse(holder.holder()));
    }
    match live.find(|one| Some(&one.claim.resource) == new.resource.as_ref()) {
        Some(holder) => Verdict::Refused(Error::ResourceInUse(holder.holder())),
        None => Verdict::Free,
    }
}

fn replay(new: &NewDomain, own: &Standing, found: &[Standing]) -> Verdict {
    let mismatch = |field| {
        let orchestration_id = new.orchestration_id.clone();
        Verdict::Refused(Error::OrchestrationMismatch { orchestration_id, field })
    };
    let removed = |domain, removed_at| {
        Verdict::Refused(Error::Removed { domain, name: new.name.clone(), removed_at })
    };
    match (&own.domain, own.claim.domain_id) {
        (Some(domain), _) => match (own.difference(domain, new), domain.removed_at) {
            (Some(field), _) => mismatch(field),
            (None, Some(at)) => removed(domain.id, at),
            (None, None) => Verdict::Same(Box::new(domain.clone())),
        },
        (None, Some(id)) => match own.claim.released_at {
            // Removed so long ago that only the claim is left, which knows the name.
            Some(at) if own.claim.name.as_ref() == Some(&new.name) => removed(id, at),
            Some(_) => mismatch("name"),
            None => {
                Verdict::Refused(Error::Corrupt { what: "state of domain", value: id.to_string() })
            }
        },
        // A claim that was given back is a request that is over.
        (None, None) if !own.is_live() => mismatch("claim"),
        (None, None) if new.resource.as_ref() != Some(&own.claim.resource) => mismatch("resource"),
        (None, None) if own.claim.name.as_ref().is_some_and(|name| *name != new.name) => {
            mismatch("name")
        }
        (None, None) => match name_holder(&new.name, own, found) {
            Some(holder) => Verdict::Refused(Error::NameInUse(holder.holder())),
            None => Verdict::Adopt(own.id),
        },
    }
}

fn name_holder<'a>(name: &Hostname, own: &Standing, found: &'a [Standing]) -> Option<&'a Standing> {
    found
        .iter()
        .find(|one| one.id != own.id && one.is_live() && one.claim.name.as_ref() == Some(name))
}

/// Judges a request for a bare claim: its own record again, a refusal, or nothing in the way any more.
pub(crate) fn judge_claim(request: &ClaimRequest, found: &[Standing]) -> Result<Option<Claim>> {
    let own = found.iter().find(|one| one.claim.orchestration_id == request.orchestration_id);
    if let Some(own) = own {
        return same_claim(request, own).map(Some);
    }
    let mut live = found.iter().filter(|one| one.is_live());
    let wanted = request.name.as_ref();
    if let Some(holder) =
        live.clone().find(|one| wanted.is_some() && one.claim.name.as_ref() == wanted)
    {
        return Err(Error::NameInUse(holder.holder()));
    }
    match live.find(|one| one.claim.resource == request.resource) {
        Some(holder) => Err(Error::ResourceInUse(holder.holder())),
        None => Ok(None),
    }
}

fn same_claim(request: &ClaimRequest, own: &Standing) -> Result<Claim> {
    // A domain that moved in brought its name along: the claim as it was asked for had none.
    let adopted = request.name.is_none() && own.claim.domain_id.is_some();
    let field = if own.claim.resource != request.resource {
        "resource"
    } else if own.claim.name != request.name && !adopted {
        "name"
    } else {
        return Ok(own.claim.clone());
    };
    Err(Error::OrchestrationMismatch { orchestration_id: request.orchestration_id.clone(), field })
}
