//! What `/metrics` says of the whole installation, asked of the store at most every few seconds however many scrape.

use std::sync::Arc;
use std::time::Duration;

use holdfast_cluster::ReplicaView;
use holdfast_model::{State, Timestamp};
use holdfast_store::{Account, Edge, Error, EventLag, LowWater, Vitals, Webhook};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::alert::gather;
use crate::{AppState, Problem};

/// How old what is shown may be.
const FRESH: Duration = Duration::from_secs(5);

/// A scrape must end also when the store does not answer.
const LIMIT: Duration = Duration::from_secs(5);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The spans in which ends of certificates are counted, and their names.
pub(crate) const SPANS: [(Duration, &str); 4] = [
    (Duration::ZERO, "0d"),
    (DAY, "1d"),
    (Duration::from_secs(7 * 86_400), "7d"),
    (Duration::from_secs(30 * 86_400), "30d"),
];

/// The installation, as last read.
pub(crate) struct Installation {
    pub(crate) counts: Vec<(State, u64)>,
    pub(crate) stuck: Vec<(State, usize)>,
    pub(crate) vitals: Vitals,
    pub(crate) account: Option<Account>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) webhooks: Vec<Webhook>,
    pub(crate) replicas: Vec<ReplicaView>,
    pub(crate) lag: EventLag,
}

/// What was last read, and when.
#[derive(Default)]
pub(crate) struct VitalCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    last: Option<(Instant, Option<Arc<Installation>>)>,
    due: LowWater<1>,
}

/// The installation; none when the store does not answer.
pub(crate) async fn installation(state: &AppState) -> Option<Arc<Installation>> {
    let mut cached = state.vitals.0.lock().await;
    if let Some((at, known)) = cached.last.as_ref()
        && at.elapsed() < FRESH
    {
        return known.clone();
    }
    let began = Instant::now();
    let [due_from] = cached.due.begin(began);
    let read = timeout(LIMIT, read(state, due_from)).await;
    let known = match read {
        Ok(Ok(installation)) => {
            let vitals = &installation.vitals;
            let first = vitals.next_due_at.unwrap_or(vitals.now);
            cached.due.looked(began, Instant::now(), vitals.now, [Some(first)]);
            Some(Arc::new(installation))
        }
        Ok(Err(error)) => {
            Problem::from(error).log();
            None
        }
        Err(_) => None,
    };
    cached.last = Some((Instant::now(), known.clone()));
    known
}

async fn read(state: &AppState, due_from: Option<Timestamp>) -> Result<Installation, Error> {
    let counts = state.store.counts().await?;
    let staying = gather::staying(state, &counts).await?;
    let edges = match state.edges_in_use {
        true => state.store.edges().await?,
        false => Vec::new(),
    };
    Ok(Installation {
        stuck: staying.into_iter().map(|(of, late)| (of, late.len())).collect(),
        vitals: state.store.vitals_from(&SPANS.map(|(span, _)| span), due_from).await?,
        account: state.store.account(&state.directory, state.limits).await?,
        webhooks: state.store.webhooks().await?,
        // Replicas are kept in the store too; where they cannot be read, the rest can be shown.
        replicas: state.cluster.replicas().await.unwrap_or_default(),
        lag: state.store.event_lag().await?,
        edges,
        counts,
    })
}
