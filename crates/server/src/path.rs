//! What a path names: one segment, or a domain by its name or its id.

use axum::extract::{FromRequestParts, Path};
use holdfast_model::{Domain, DomainId, Hostname};
use holdfast_store::Page;
use http::request::Parts;
use serde_json::json;

use crate::view::HistoryView;
use crate::{AppState, Kind, Problem, field};

/// The one parameter of a path, percent-decoded.
pub(crate) struct Segment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) =
            Path::<String>::from_request_parts(parts, state).await.map_err(|error| {
                Problem::new(Kind::InvalidPath, format!("The path cannot be read: {error}."))
            })?;
        Ok(Self(text))
    }
}

/// A domain as a path names it.
#[derive(Debug, Clone)]
pub(crate) enum DomainKey {
    Id(DomainId),
    Name(Hostname),
}

impl<S: Send + Sync> FromRequestParts<S> for DomainKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Segment(text) = Segment::from_request_parts(parts, state).await?;
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        Hostname::parse_host(&text).map(Self::Name).map_err(|_| {
            let detail =
                format!("`{}` is neither a name nor an id of a domain.", field::shown(&text));
            Problem::new(Kind::NotFound, detail)
        })
    }
}

impl DomainKey {
    /// The domain, also a removed one when it is named by its id.
    pub(crate) async fn find_ever(&self, state: &AppState) -> Result<Domain, Problem> {
        let (found, shown) = match self {
            Self::Id(id) => (state.store.domain(*id).await?, id.to_string()),
            Self::Name(name) => (state.store.domain_named(name).await?, name.to_string()),
        };
        found.ok_or_else(|| {
            let detail = format!(
                "There is no domain `{shown}`; `holdfast domain list` shows those there are."
            );
            Problem::new(Kind::NotFound, detail)
        })
    }

    /// The domain; a removed one is gone, and its history is in the refusal.
    pub(crate) async fn find(&self, state: &AppState) -> Result<Domain, Problem> {
        let domain = self.find_ever(state).await?;
        if domain.removed_at.is_some() {
            return Err(gone(state, &domain).await?);
        }
        Ok(domain)
    }

    /// The domain, if anything may still be asked of it.
    pub(crate) async fn find_lasting(&self, state: &AppState) -> Result<Domain, Problem> {
        let domain = self.find(state).await?;
        match domain.removing_since {
            None => Ok(domain),
            Some(since) => {
                let detail = format!(
                    "`{}` is being removed since {since}; add it again once it is gone.",
                    domain.name
                );
                Err(Problem::new(Kind::BeingRemoved, detail))
            }
        }
    }
}

async fn gone(state: &AppState, domain: &Domain) -> Result<Problem, Problem> {
    let page = Page { limit: 100, after: None };
    let history = state.store.history(domain.id, &page).await?.items;
    let history: Vec<_> = history.into_iter().filter_map(HistoryView::of).collect();
    let detail = format!(
        "`{}` ({}) was removed; its history stays at /v1/domains/{}/history.",
        domain.name, domain.id, domain.id
    );
    Ok(Problem::new(Kind::Gone, detail)
        .with("removed_at", json!(domain.removed_at))
        .with("history", json!(history)))
}
