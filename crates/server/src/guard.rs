//! The write guard: where one replica is to do all writing, the others pass writes on to it, send clients there, or refuse.
//!
//! Whoever accepts a guarded write holds the leadership at that moment, and at the moment of its commit; a write is passed on at most once; and it is never sent twice,
//! because whoever sent it cannot know what came of it. What it means to hold the leadership is the cluster's business.

mod decision;
mod forward;
mod pass;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use holdfast_cluster::{Cluster, Master};
use holdfast_gateway::client::{Client, ClientConfig, Error};
use holdfast_store::Fence;
use http::{HeaderValue, Method, header};
use serde_json::json;

use self::decision::{Decision, Question, decide};
use self::pass::Pass;
use crate::{AppState, Kind, Problem};

/// How long the leader may take until its answer begins: less than a client waits for ours.
const PATIENCE: Duration = Duration::from_secs(25);

/// What a replica that is not the leader does with writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Writes {
    /// Takes them.
    Any,
    /// Passes them on to the leader.
    Forward,
    /// Sends the client to the leader.
    Redirect,
    /// Refuses them.
    Reject,
}

/// Who leads.
pub trait Leadership: Send + Sync {
    /// This replica.
    fn instance(&self) -> &str;
    /// The term of our own leadership, while we hold it; the time is compared at every call.
    fn term(&self) -> Option<u64>;
    /// Who holds the leadership, as last seen.
    fn master(&self) -> Option<Master>;
    /// What holds a write to this term until its commit, where others could lead meanwhile.
    fn fence(&self, _term: u64) -> Option<Fence> {
        None
    }
}

impl Leadership for Cluster {
    fn instance(&self) -> &str {
        self.instance()
    }

    fn term(&self) -> Option<u64> {
        self.term()
    }

    fn master(&self) -> Option<Master> {
        self.master()
    }

    fn fence(&self, term: u64) -> Option<Fence> {
        self.fence(term)
    }
}

/// The guard of one replica.
#[derive(Clone)]
pub struct Guard {
    writes: Writes,
    lead: Arc<dyn Leadership>,
    client: Client,
}

impl Guard {
    /// Makes it. `roots` are trusted beside the system's when the leader is reached over TLS.
    ///
    /// # Errors
    /// When the roots are no certificates.
    pub fn new(
        writes: Writes,
        lead: Arc<dyn Leadership>,
        roots: Option<Vec<u8>>,
    ) -> Result<Self, Error> {
        let config = ClientConfig {
            extra_roots_pem: roots,
            time_limit: PATIENCE,
            ..ClientConfig::default()
        };
        Ok(Self { writes, lead, client: Client::new(config)? })
    }
}

/// Lets a request through, or does with it what the guard says. The guard's own header never goes further than here, whoever sent it.
pub(crate) async fn guard(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let pass = pass::take(&state, &mut request).await?;
    let decision = decide(&Question {
        writes: state.guard.writes,
        guarded: is_guarded(&request),
        pass,
        term: state.guard.lead.term(),
        instance: state.guard.lead.instance(),
        master: state.guard.lead.master(),
    });
    let outcome = decision.outcome();
    if let Some(outcome) = outcome {
        metrics::counter!("holdfast_guarded_writes_total", "outcome" => outcome).increment(1);
    }
    match decision {
        Decision::Take => Ok(next.run(request).await),
        // It may take long until the commit, and by then another may lead: the store looks again.
        Decision::TakeAsLeader { term } => match state.guard.lead.fence(term) {
            Some(fence) => Ok(fence.around(next.run(request)).await),
            None => Ok(next.run(request).await),
        },
        Decision::Forward(master) => forward::forward(&state, request, &master).await,
        Decision::Redirect(master) => Err(redirected(&request, &master)),
        Decision::Reject(master) => Err(refer(Kind::NotMaster, &master)),
        Decision::NoLeader => Err(no_leader()),
        Decision::Stale => Err(stale()),
    }
}

/// Is it a write? Forcing a lease is what one does when there is no proper leader, and is fenced by the lease itself. What an edge
/// says of itself is heard by whichever replica it reached.
fn is_guarded(request: &Request) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS];
    !reads.contains(request.method())
        && !request.uri().path().starts_with("/v1/leases/")
        && !crate::edge::is_said_by_an_edge(request)
}

/// The same request at the leader.
fn url_at(master: &Master, request: &Request) -> String {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    format!("{}{path}", master.url.trim_end_matches('/'))
}

fn redirected(request: &Request, master: &Master) -> Problem {
    match HeaderValue::try_from(url_at(master, request)) {
        Ok(location) => refer(Kind::SeeLeader, master).header_value(header::LOCATION, location),
        Err(_) => no_leader(),
    }
}

fn refer(kind: Kind, master: &Master) -> Problem {
    let detail = format!(
        "Writes are taken by the leader alone, which is `{}`; send this to {}.",
        master.instance_id, master.url
    );
    let leader = json!({ "instance_id": master.instance_id, "url": master.url });
    Problem::new(kind, detail).with("master", leader)
}

fn no_leader() -> Problem {
    let detail = "No replica leads at this moment and nothing was done; send the same again soon.";
    Problem::new(Kind::NoLeader, detail).header(header::RETRY_AFTER, "2")
}

pub(crate) fn stale() -> Problem {
    let detail = "This replica does not lead in the term it was sent this for. What came too late was not written; look whether it was done before you send it again.";
    Problem::new(Kind::StaleTerm, detail).header(header::RETRY_AFTER, "1")
}
