//! Brings the facts together, every one by an index and bounded; and makes what is decided stand.

use std::time::Duration;

use holdfast_model::{Domain, State, Timestamp};
use holdfast_store::{Actor, DomainFilter, Edge, Error, Expiring, Fence, Page, StandingAlert};

use super::{Alert, Facts};
use crate::AppState;

/// Domains looked at per state: enough to notice, cheap at any size.
const SAMPLE: u32 = 200;

/// The soonest ends that are looked at. A ninth of the longest life there is (398 days) is less than this long.
const SOONEST: u32 = 1_000;
/// How many domains whose end is near are told of in one commit.
const PAGE: u32 = 500;
const HORIZON: Duration = Duration::from_secs(45 * 24 * 3600);

/// Decides, and makes it stand: each alert's raising and clearing, and each domain whose end is near, becomes one event.
pub(crate) async fn settle(state: &AppState, fence: Option<&Fence>) -> Result<u64, Error> {
    let alerts = alerts(state).await?.into_iter().map(|alert| StandingAlert {
        code: alert.code.to_owned(),
        subject: alert.subject,
        detail: alert.detail,
    });
    let standing: Vec<_> = alerts.collect();
    let actor = Actor { instance: state.instance.clone(), name: "alerts".to_owned() };
    let mut told = state.store.settle_alerts(fence, &actor, &standing).await?;
    // All of them, however many: page by page, so that none holds the lease's row for long.
    loop {
        let page = state.store.settle_expiring(fence, &actor, PAGE).await?;
        told += page;
        if page < u64::from(PAGE) {
            return Ok(told);
        }
    }
}

/// What deserves a person's attention now.
pub(crate) async fn alerts(state: &AppState) -> Result<Vec<Alert>, Error> {
    let counts = state.store.counts().await?;
    let staying = staying(state, &counts).await?;
    let samples = samples(state, &counts).await?;
    let account = state.store.account(&state.directory, state.limits).await?;
    let edges = match state.edges_in_use {
        true => state.store.edges().await?,
        false => Vec::new(),
    };
    let behind = behind(state, &edges).await?;
    let webhooks = state.store.webhooks().await?;
    let now = state.store.ping().await?;
    let expiring = expiring(state, now).await?;
    let facts = Facts {
        now,
        counts: &counts,
        staying: &staying,
        samples: &samples,
        expiring: &expiring,
        edges: &edges,
        behind: &behind,
        webhooks: &webhooks,
        account: account.as_ref(),
        leaderless: state.leaderless(),
    };
    Ok(super::alerts(&facts))
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

async fn expiring(state: &AppState, now: Timestamp) -> Result<Vec<Expiring>, Error> {
    let soonest = state.store.expiring(HORIZON, SOONEST).await?;
    Ok(soonest.into_iter().filter(|one| super::near(one, now)).collect())
}
