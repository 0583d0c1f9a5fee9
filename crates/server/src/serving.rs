//! Domains with what the edges serve of them, as answers show them.

use std::collections::HashMap;

use holdfast_model::Domain;

use crate::auth::Caller;
use crate::view::{DomainView, Serving};
use crate::{AppState, Problem};

/// One domain, shown to a caller.
pub(crate) async fn show(
    state: &AppState,
    caller: &Caller,
    domain: Domain,
) -> Result<DomainView, Problem> {
    let serving = match is_worth_a_question(state, &domain) {
        true => Serving::of(state.store.deployment(domain.id).await?),
        false => None,
    };
    Ok(DomainView::new(domain, serving, &state.addresses, caller))
}

/// Many domains, in their order, by one question about all of them.
pub(crate) async fn show_all(
    state: &AppState,
    caller: &Caller,
    domains: Vec<Domain>,
) -> Result<Vec<DomainView>, Problem> {
    let asked = domains.iter().filter(|domain| is_worth_a_question(state, domain));
    let asked: Vec<_> = asked.map(|domain| domain.id).collect();
    let mut found = match asked.is_empty() {
        true => HashMap::new(),
        false => state.store.deployments(&asked).await?,
    };
    let shown = domains.into_iter().map(|domain| {
        let serving = found.remove(&domain.id).and_then(Serving::of);
        DomainView::new(domain, serving, &state.addresses, caller)
    });
    Ok(shown.collect())
}

/// What has no certificate was never deployed.
fn is_worth_a_question(state: &AppState, domain: &Domain) -> bool {
    state.edges_in_use && domain.certificate.is_some()
}
