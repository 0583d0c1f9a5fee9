//! Brings the facts together, every one by an index and bounded; and makes what is decided stand.

use std::time::Duration;

use holdfast_model::{Domain, State, Timestamp, WaitScope};
use holdfast_store::{
    Account, Actor, CaWait, DomainFilter, Edge, Ending, Error, Fence, Page, StandingAlert,
};

use tokio::time::timeout;

use super::{Alert, Facts, SHOWN};
use crate::AppState;
use crate::database::{self, Trouble};

/// How long a database that cannot be used is asked for the rest.
const LIMIT: Duration = Duration::from_secs(3);

/// Domains looked at per state: enough to notice, cheap at any size.
const SAMPLE: u32 = 200;

/// Domains whose end is near that are looked at in one commit, so that none holds the lease's row for long.
const PART: u32 = 500;

/// Decides, and makes it stand: each alert's raising and clearing, and each domain whose end is near, becomes one event.
pub(crate) async fn settle(state: &AppState, fence: Option<&Fence>) -> Result<u64, Error> {
    let alerts = alerts(state).await?.into_iter().map(|alert| StandingAlert {
        code: alert.code.to_owned(),
        subject: alert.subject,
        detail: alert.detail,
    });
    let standing: Vec<_> = alerts.collect();
    let actor = Actor { instance: state.instance.clone(), name: "alerts".to_owned() };
    let told = state.store.settle_alerts(fence, &actor, &standing).await?;
    // An alert that a wrong clock raised is cleared; what was told of a certificate's end stays told.
    if state.cluster.clock().is_unsettled() {
        return Ok(told);
    }
    Ok(told + state.store.settle_expiring(fence, &actor, PART).await?)
}

/// What deserves a person's attention now. That the database cannot be used is told from memory, and whatever else can still be read.
pub(crate) async fn alerts(state: &AppState) -> Result<Vec<Alert>, Error> {
    let Some(trouble) = database::trouble(state).await else { return decided(state, None).await };
    match timeout(LIMIT, decided(state, Some(&trouble))).await {
        Ok(Ok(alerts)) => Ok(alerts),
        Ok(Err(_)) | Err(_) => Ok(vec![super::database(&trouble)]),
    }
}

async fn decided(state: &AppState, trouble: Option<&Trouble>) -> Result<Vec<Alert>, Error> {
    let counts = state.store.counts().await?;
    let staying = staying(state, &counts).await?;
    let samples = samples(state, &counts).await?;
    let account = state.store.account(&state.directory, state.limits).await?;
    let terms = state.store.terms(&state.directory).await?;
    let edges = match state.edges_in_use {
        true => state.store.edges().await?,
        false => Vec::new(),
    };
    let behind = behind(state, &edges).await?;
    let webhooks = state.store.webhooks().await?;
    let lag = state.store.event_lag().await?;
    let now = state.store.ping().await?;
    let ending = ending(state).await?;
    let waits = waits(state, account.as_ref()).await?;
    let late = state.store.late_issues(SHOWN).await?;
    let facts = Facts {
        now,
        counts: &counts,
        staying: &staying,
        samples: &samples,
        ending: &ending,
        late: &late,
        edges: &edges,
        behind: &behind,
        webhooks: &webhooks,
        account: account.as_ref(),
        waits: &waits,
        terms: terms.as_ref(),
        lag: &lag,
        hindered: state.store.shortage(),
        clock_step: state.cluster.clock().recent_step(),
        clock_off_by: state.cluster.clock().off_by(),
        leaderless: state.leaderless(),
        log_bytes: state.store.log_bytes().await,
        trouble,
    };
    Ok(super::alerts(&facts))
}

/// Some of what waits that people should know of.
async fn waits(state: &AppState, account: Option<&Account>) -> Result<Vec<CaWait>, Error> {
    let Some(account) = account else { return Ok(Vec::new()) };
    let mut waits = Vec::new();
    for scope in [WaitScope::PausedName, WaitScope::RegisteredDomain] {
        waits.extend(state.store.waits(account.id, scope, SHOWN).await?);
    }
    Ok(waits)
}

/// The states somebody is in and should leave.
fn occupied(counts: &[(State, u64)]) -> impl Iterator<Item = State> {
    counts.iter().filter(|(of, count)| *count > 0 && super::watched(*of)).map(|(of, _)| *of)
}

/// By state, those who have been in it for too long.
pub(crate) async fn staying(
    state: &AppState,
    counts: &[(State, u64)],
) -> Result<Vec<(State, Vec<Domain>)>, Error> {
    let mut staying = Vec::new();
    for of in occupied(counts) {
        let limit = super::limit(&state.policy, of);
        staying.push((of, state.store.staying(of, limit, SAMPLE).await?));
    }
    Ok(staying)
}

async fn samples(
    state: &AppState,
    counts: &[(State, u64)],
) -> Result<Vec<(State, Vec<Domain>)>, Error> {
    let mut samples = Vec::new();
    let page = Page { limit: SAMPLE, after: None };
    for of in occupied(counts) {
        let filter = DomainFilter { state: Some(of), ..DomainFilter::default() };
        samples.push((of, state.store.domains(&filter, &page).await?.items));
    }
    Ok(samples)
}

async fn behind(state: &AppState, edges: &[Edge]) -> Result<Vec<(String, Timestamp)>, Error> {
    let mut behind = Vec::new();
    let epoch = state.store.latest_revision().await?.epoch;
    for edge in edges.iter().filter(|edge| edge.live && edge.behind > 0) {
        // What it applied before a restore is nothing of what it should have applied since.
        let at = Some(edge.revision).filter(|at| at.epoch == epoch).unwrap_or_default();
        let since = state.store.unapplied_since(&edge.group, at).await?;
        behind.extend(since.map(|since| (edge.name.clone(), since)));
    }
    Ok(behind)
}

/// What was not renewed in time; of what has ended already, however many are near their end, that.
async fn ending(state: &AppState) -> Result<Ending, Error> {
    let ended = state.store.expiring(Duration::ZERO, SHOWN).await?;
    let ending = state.store.ending(SHOWN).await?;
    let some = if ended.is_empty() { ending.some } else { ended };
    Ok(Ending { some, ..ending })
}
