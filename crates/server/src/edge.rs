//! Which edge asks, and may it? Every route of the feed takes an [`AtEdge`]: a caller who may act for the edge in the path.

use std::time::Duration;

use axum::extract::{FromRequestParts, MatchedPath, Path, Request};
use holdfast_store::{EdgeIdentity, Error, Scope};
use http::{Method, request::Parts};

use crate::auth::{Caller, Keyholder};
use crate::{AppState, Kind, Problem, audit, field};

/// The route of the long poll.
pub(crate) const CHANGES: &str = "/v1/edges/{edge}/changes";

/// Is it an edge's word on itself: that it is there, or what it saw? That asks for nothing and decides nothing; the leader need not
/// carry every edge's signs of life, and the certificate that an edge shows to one replica cannot be shown to the next.
pub(crate) fn is_said_by_an_edge(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    matches!(
        (request.method(), route),
        (&Method::PUT, Some("/v1/edges/{edge}" | "/v1/edges/{edge}/difference"))
            | (&Method::POST, Some("/v1/edges/{edge}/report"))
    )
}

/// The longest an edge may wait in one poll.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Being woken is a hint that can be missed: a poll that waits looks at least this often.
pub const UNASKED_LOOK: Duration = Duration::from_secs(10);

/// A caller who may act for the edge it names: the edge's own token, or an admin's.
pub(crate) struct AtEdge {
    pub(crate) caller: Caller,
    pub(crate) name: String,
}

impl FromRequestParts<AppState> for AtEdge {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let Keyholder(caller) = Keyholder::from_request_parts(parts, state).await?;
        let name = field::text("edge", segment(parts, state, "edge").await?, field::NAME)?;
        if caller.scope == Scope::Edge && caller.edge.as_deref() != Some(&name) {
            let own = caller.edge.as_deref().unwrap_or("none");
            let detail = format!("Token `{}` is for edge `{own}`, not `{name}`.", caller.name);
            audit::refused(state, &caller, "edge-refused", &name, &detail).await;
            return Err(Problem::new(Kind::WrongEdge, detail));
        }
        Ok(Self { caller, name })
    }
}

/// One parameter of a path that may have several.
pub(crate) async fn segment(
    parts: &mut Parts,
    state: &AppState,
    name: &str,
) -> Result<String, Problem> {
    let found = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await;
    let found = found.ok().and_then(|Path(found)| found.into_iter().find(|(key, _)| key == name));
    let (_, value) =
        found.ok_or_else(|| Problem::new(Kind::InvalidPath, "The path cannot be read."))?;
    Ok(value)
}

impl AtEdge {
    /// The edge, if it has registered with the group its token is for.
    pub(crate) async fn known(&self, state: &AppState) -> Result<EdgeIdentity, Problem> {
        let known = state.store.edge_identity(&self.name).await?;
        let own = |group: &str| self.caller.group.as_deref().is_none_or(|own| own == group);
        known.filter(|edge| own(&edge.group)).ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> Problem {
        let detail = format!(
            "Edge `{}` is not registered; send `PUT /v1/edges/{}` first.",
            self.name, self.name
        );
        Problem::new(Kind::EdgeUnknown, detail)
    }

    /// Is it still the edge that it was when it began to wait? It may have been removed since, or moved to another group.
    pub(crate) async fn is_still(
        &self,
        state: &AppState,
        known: &EdgeIdentity,
    ) -> Result<(), Problem> {
        let now = self.known(state).await?;
        if now.id == known.id { Ok(()) } else { Err(self.unknown()) }
    }

    /// An edge that was removed while it was heard must register again.
    pub(crate) fn gone(&self, error: Error) -> Problem {
        match error {
            Error::NotFound("edge") => self.unknown(),
            other => other.into(),
        }
    }

    /// Refuses what belongs to another group, and writes that it was asked for.
    pub(crate) async fn wrong_group(&self, state: &AppState, what: &str, group: &str) -> Problem {
        let own = self.caller.group.as_deref().unwrap_or("none");
        let detail = format!(
            "{what} is for group `{group}`; token `{}` is for group `{own}`.",
            self.caller.name
        );
        audit::refused(state, &self.caller, "edge-refused", &self.name, &detail).await;
        Problem::new(Kind::WrongGroup, detail)
    }
}
