//! Domains with what the edges serve of them, as answers show them.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use holdfast_model::Domain;

use crate::auth::Caller;
use crate::view::{DomainView, Serving};
use crate::{AppState, Problem};

/// How many deployments are looked up at once for a list.
const LOOKUPS: usize = 8;

/// One domain, shown to a caller.
pub(crate) async fn show(
    state: &AppState,
    caller: &Caller,
    domain: Domain,
) -> Result<DomainView, Problem> {
    // What has no certificate was never deployed, and is not worth a question.
    let serving = match state.edges_in_use && domain.certificate.is_some() {
        true => Serving::of(&domain, state.store.deployment(domain.id).await?),
        false => None,
    };
    Ok(DomainView::new(domain, serving, &state.addresses, caller))
}

/// Many domains, in their order.
pub(crate) async fn show_all(
    state: &AppState,
    caller: &Caller,
    domains: Vec<Domain>,
) -> Result<Vec<DomainView>, Problem> {
    let shown = domains.into_iter().map(|domain| show(state, caller, domain));
    stream::iter(shown).buffered(LOOKUPS).try_collect().await
}
