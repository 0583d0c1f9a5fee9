//! Domains, as people see them: added, listed, asked for. Working on them is `work`'s business.

use std::collections::BTreeMap;

use async_trait::async_trait;
use holdfast_model::{Domain, DomainId, Hostname, QueuePlace, State, Wanted};

use crate::{Actor, Fence, NewCertificate, Page, Paged, Result};

/// A certificate that was brought along.
#[derive(Debug, Clone)]
pub struct Import {
    /// Chain, key and facts; checked by the caller against the name and the time.
    pub certificate: NewCertificate,
}

/// What is needed to add one.
#[derive(Debug, Clone)]
pub struct NewDomain {
    /// Its id, made by the caller so that a unique target can carry it.
    pub id: DomainId,
    /// The name.
    pub name: Hostname,
    /// Whose it is.
    pub tenant: Option<String>,
    /// What is hosted; defaults to the id.
    pub resource: Option<String>,
    /// The CNAME value for this customer.
    pub target: Hostname,
    /// Was the target given by the caller? Only then does a replay compare it.
    pub target_given: bool,
    /// Which edges serve it.
    pub edge_group: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The idempotency key.
    pub orchestration_id: String,
    /// A certificate brought along; stored with the domain, so that `Initial` finds it.
    pub import: Option<Import>,
    /// Who asks.
    pub actor: Actor,
}

/// The answer to adding.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// The domain, as it stands now.
    pub domain: Domain,
    /// Is it new, or the same request again?
    pub created: bool,
}

/// Which domains are listed. Removed ones never are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainFilter {
    /// In this state.
    pub state: Option<State>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// With names that begin so.
    pub prefix: Option<String>,
}

/// What may be changed of a domain; `None` leaves as is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainPatch {
    /// `Some(None)` clears it.
    pub tenant: Option<Option<String>>,
    /// A new resource; conflicts as in adding.
    pub resource: Option<String>,
    /// A new group: the certificate is deployed there anew.
    pub edge_group: Option<String>,
    /// New labels, all of them.
    pub labels: Option<BTreeMap<String, String>>,
}

/// How a domain stands in the queue for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStanding {
    /// Its place, as far as it is counted.
    pub place: QueuePlace,
    /// Does it wait for the order budget? A renewal does not: the CA does not count it as a new order.
    pub is_charged: bool,
}

/// Domains, as people see them.
#[async_trait]
pub trait Domains: Send + Sync {
    /// Adds a claim and its domain in one transaction, or finds the same request's. Wakes the workers.
    async fn add(&self, new: &NewDomain) -> Result<Added>;

    /// Adds many in one transaction, each with its own result; a conflict of one does not touch the others.
    async fn add_many(&self, new: &[NewDomain]) -> Result<Vec<Result<Added>>>;

    /// Would adding make a domain? Not where the same request made it before. Nothing is written.
    async fn would_add(&self, new: &NewDomain) -> Result<bool>;

    /// One by id, also after its removal.
    async fn domain(&self, id: DomainId) -> Result<Option<Domain>>;

    /// The live one of this name.
    async fn domain_named(&self, name: &Hostname) -> Result<Option<Domain>>;

    /// Lists by name.
    async fn domains(&self, filter: &DomainFilter, page: &Page) -> Result<Paged<Domain>>;

    /// Changes what may be changed. With `expected`, only that version. `version` rises.
    async fn patch(
        &self,
        id: DomainId,
        expected: Option<i64>,
        patch: &DomainPatch,
        actor: &Actor,
    ) -> Result<Domain>;

    /// Notes what a person wants and makes it due; never touches `version`.
    async fn want(&self, id: DomainId, wanted: Wanted, actor: &Actor) -> Result<()>;

    /// Begins the removal; again is the same. Never touches `version`.
    async fn remove(&self, id: DomainId, revoke: bool, actor: &Actor) -> Result<()>;

    /// How many live domains are in each state: folded counts and the tail that is not folded yet. Of a tail longer than [`FOLDED`]
    /// events the first ones count, which is how things stood a moment ago.
    ///
    /// [`FOLDED`]: crate::FOLDED
    async fn counts(&self) -> Result<Vec<(State, u64)>>;

    /// Its place in the queue for an order, as far as it is counted; none when it is not queued.
    async fn queue_place(&self, id: DomainId) -> Result<Option<QueuePlace>> {
        Ok(self.queue_standing(id).await?.map(|standing| standing.place))
    }

    /// How it stands in the queue for an order; none when it is not queued.
    async fn queue_standing(&self, id: DomainId) -> Result<Option<QueueStanding>>;

    /// Asks for a renewal of up to `limit` Active domains whose certificate came from `directory`, soonest end first. The
    /// orders are paced by the queue; callers pace the asking. Gives how many were asked.
    async fn want_moved(
        &self,
        fence: Option<&Fence>,
        directory: &str,
        limit: u32,
        actor: &Actor,
    ) -> Result<u64>;
}

impl DomainPatch {
    /// The domain as it would be.
    pub(crate) fn applied_to(&self, domain: &Domain) -> Domain {
        let mut after = domain.clone();
        if let Some(tenant) = &self.tenant {
            after.tenant.clone_from(tenant);
        }
        if let Some(resource) = &self.resource {
            after.resource.clone_from(resource);
        }
        if let Some(group) = &self.edge_group {
            after.edge_group.clone_from(group);
        }
        if let Some(labels) = &self.labels {
            after.labels.clone_from(labels);
        }
        after
    }
}
