//! A request for a domain, from what was typed to what the store takes: every field parsed once.

use std::collections::BTreeMap;

use holdfast_model::{DomainId, Hostname, Timestamp};
use holdfast_store::{Actor, NewDomain};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::body::{Input, Object};
use crate::import::{self, Pem};
use crate::{AppState, Kind, Problem, field};

/// What is needed to add a domain.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with a `name`")]
#[schema(as = NewDomain)]
pub(crate) struct DomainRequest {
    /// The name customers type; Unicode is taken too.
    name: String,
    /// The operator's own key for whose it is.
    tenant: Option<String>,
    /// The operator's own key for what is hosted there; the new id where none is given.
    resource: Option<String>,
    /// The CNAME value for this customer; the installation's where none is given.
    target: Option<String>,
    /// Which edges serve it.
    edge_group: Option<String>,
    /// The operator's own labels.
    labels: Option<BTreeMap<String, String>>,
    /// The idempotency key; with it, the same request again gives the same domain.
    orchestration_id: Option<String>,
    /// A certificate to begin with.
    #[schema(value_type = Option<Pem>)]
    certificate: Option<Object<Pem>>,
}

impl Input for DomainRequest {}

impl DomainRequest {
    /// Checks every field. `now` is the store's clock, for the certificate's validity.
    pub(crate) fn check(
        self,
        state: &AppState,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<NewDomain, Problem> {
        let id = DomainId::new();
        let name = Hostname::parse(&self.name)?.outside(&state.targets)?;
        let target_given = self.target.is_some();
        let target = target(state, id, &name, self.target.as_deref())?;
        let group = field::optional("edge_group", self.edge_group, field::NAME)?;
        let given = field::optional("orchestration_id", self.orchestration_id, field::KEY)?;
        let import =
            self.certificate.as_ref().map(|pem| import::check(&name, &pem.0, now)).transpose()?;
        Ok(NewDomain {
            id,
            tenant: field::optional("tenant", self.tenant, field::KEY)?,
            resource: field::optional("resource", self.resource, field::KEY)?,
            target,
            target_given,
            edge_group: group.unwrap_or_else(|| state.edge_group.clone()),
            labels: field::labels(self.labels.unwrap_or_default())?,
            orchestration_id: given.unwrap_or_else(|| Uuid::new_v4().to_string()),
            import,
            actor: actor.clone(),
            name,
        })
    }

    /// Does checking it need the store's clock?
    pub(crate) fn has_certificate(&self) -> bool {
        self.certificate.is_some()
    }
}

/// The store's clock if one of the requests needs it; asking costs a round trip.
pub(crate) async fn clock<'a>(
    state: &AppState,
    mut requests: impl Iterator<Item = &'a DomainRequest>,
) -> Result<Timestamp, Problem> {
    if requests.any(DomainRequest::has_certificate) {
        return Ok(state.store.ping().await?);
    }
    Ok(Timestamp::from_micros(0))
}

fn target(
    state: &AppState,
    id: DomainId,
    name: &Hostname,
    given: Option<&str>,
) -> Result<Hostname, Problem> {
    let invalid =
        |detail: String| Problem::new(Kind::InvalidTarget, detail).with("field", "target");
    let target = match (given, state.targets.first()) {
        (Some(given), _) => {
            Hostname::parse_host(given).map_err(|error| invalid(error.to_string()))?
        }
        (None, Some(first)) if state.unique_target => {
            first.below(&id.to_string()).map_err(|error| invalid(error.to_string()))?
        }
        (None, Some(first)) => first.clone(),
        (None, None) => return Err(invalid("Give a `target`: [dns] targets is empty.".to_owned())),
    };
    if target.is_at_or_below(name) {
        return Err(invalid(format!(
            "`{target}` is the name itself, or below it; give the edge's name."
        )));
    }
    Ok(target)
}
