//! How the CA stands for a domain that needs it: its queue, what it wants left alone, whether it fails at all.

use std::time::Duration;

use holdfast_model::{
    CaFacts, Check, Domain, Note, QueueFacts, QueuePlace, State, Timestamp, WaitFacts,
};
use holdfast_store::{Account, CaWait, Halt, OrderLimits, QueueStanding};

use super::{STORE, unseen, within_limit};
use crate::{AppState, Problem, view::ca_host};

/// How the CA stands, where the domain waits for it.
#[derive(Default)]
pub(super) struct Authority {
    pub(super) queue: Option<QueueFacts>,
    pub(super) wait: Option<WaitFacts>,
    pub(super) ca: Option<CaFacts>,
    pub(super) check: Option<Check>,
}

/// Is this a state in which the CA is what the domain waits for?
const fn is_at_the_ca(state: State) -> bool {
    matches!(
        state,
        State::AcmeOrdering
            | State::AcmeOrderCreated
            | State::AcmeChallengePreparing
            | State::AcmeChallengePrepared
            | State::AcmeChallengeValidating
            | State::AcmeChallengeValidated
            | State::CertificateDownloading
    )
}

pub(super) async fn authority(state: &AppState, domain: &Domain) -> Authority {
    if !is_at_the_ca(domain.state) {
        return Authority::default();
    }
    if let (wait, Some(check)) = wait(state, domain).await {
        return Authority { wait, check: Some(check), ..Authority::default() };
    }
    within_limit(looked_up(state, domain)).await.unwrap_or_else(|| Authority {
        check: Some(unseen("ca", EXPECTED.to_owned(), STORE)),
        ..Authority::default()
    })
}

/// Of a CA in good order.
const EXPECTED: &str = "orders are taken";

async fn looked_up(state: &AppState, domain: &Domain) -> Result<Authority, Problem> {
    let standing = match domain.state {
        State::AcmeOrdering => state.store.queue_standing(domain.id).await?,
        _ => None,
    };
    let account = state.store.account(&state.directory, state.limits).await?;
    let now = state.store.ping().await?;
    let ca = account.as_ref().and_then(|account| failing(account, now));
    let queue = standing
        .zip(account)
        .map(|(standing, account)| queued(&standing, account, state.limits, now));
    let waits = domain.last_error.as_ref().filter(|note| note.is_of_the_ca());
    let (ok, seen) = match (&queue, &ca) {
        (Some(queue), None) => (is_open(queue), seen_in(queue)),
        (queue, Some(ca)) => {
            let place = queue.as_ref().map(|queue| format!("{} in the queue; ", queue.place));
            let (place, since) = (place.unwrap_or_default(), ca.since);
            (false, format!("{place}it has failed since {since}: {}", ca.note))
        }
        (None, None) if waits.is_some() => {
            (false, waits.map(ToString::to_string).unwrap_or_default())
        }
        (None, None) if domain.state == State::AcmeOrdering => {
            (true, "it is not waiting in the queue".to_owned())
        }
        (None, None) => (true, "it answers".to_owned()),
    };
    let check = Check { name: "ca".to_owned(), ok, expected: EXPECTED.to_owned(), seen };
    Ok(Authority { queue, wait: None, ca, check: Some(check) })
}

/// What replicas noted of a CA that fails.
fn failing(account: &Account, now: Timestamp) -> Option<CaFacts> {
    let (since, failure) = (account.failing_since?, account.failure.as_deref()?);
    let next_attempt_at = account.asked_again_at.filter(|at| *at > now);
    Some(CaFacts { since, note: Note::parse(failure), next_attempt_at })
}

fn queued(
    standing: &QueueStanding,
    account: Account,
    limits: OrderLimits,
    now: Timestamp,
) -> QueueFacts {
    if let Some(halt) = &account.halt {
        return halted(&account.directory, halt, standing.place);
    }
    let unusable = account.unusable.map(|why| format!("acme-account-unusable: {why}"));
    QueueFacts {
        place: standing.place,
        paused_until: account.paused_until.filter(|until| *until > now),
        pause_reason: unusable.or(account.pause_reason),
        next_slot_at: account
            .next_slot_at
            .filter(|at| *at > now && standing.is_charged)
            .map(|first| first.plus(refill(standing.place, limits))),
    }
}

/// How long the budget takes to refill for those who stand before this place.
fn refill(place: QueuePlace, limits: OrderLimits) -> Duration {
    let (QueuePlace::At(place) | QueuePlace::Beyond(place)) = place;
    let before = u32::try_from(place.saturating_sub(1)).unwrap_or(u32::MAX);
    (Duration::from_secs(3 * 3600) / limits.per_3h.max(1)).saturating_mul(before)
}

/// A person has paused the CA: neither the budget nor what the CA says counts.
fn halted(directory: &str, halt: &Halt, place: QueuePlace) -> QueueFacts {
    let name = ca_host(directory);
    let why = format!(
        "{} paused {name} by hand at {}; `holdfast ca resume {name}` ends it",
        halt.by, halt.since
    );
    QueueFacts {
        place,
        paused_until: halt.until,
        pause_reason: Some(format!("ca-paused: {why}")),
        next_slot_at: None,
    }
}

/// Did the CA ask for it? Only a rate limit, or a reason without a code, is its own.
pub(crate) fn is_asked(reason: &str) -> bool {
    reason.split_once(": ").is_none_or(|(code, _)| code == "acme-rate-limited")
}

fn is_open(queue: &QueueFacts) -> bool {
    queue.next_slot_at.is_none() && queue.pause_reason.is_none() && queue.paused_until.is_none()
}

fn seen_in(queue: &QueueFacts) -> String {
    let place = queue.place;
    match (queue.paused_until, queue.next_slot_at) {
        (Some(until), _) => {
            let reason = queue.pause_reason.as_deref().unwrap_or("no reason was given");
            match is_asked(reason) {
                true => format!(
                    "{place} in the queue; the CA asked to be left alone until {until}: {reason}"
                ),
                false => {
                    format!("{place} in the queue; nothing is ordered until {until}: {reason}")
                }
            }
        }
        (None, Some(at)) => {
            format!("{place} in the queue; the budget allows the next order at {at}")
        }
        (None, None) => match &queue.pause_reason {
            Some(reason) => format!("{place} in the queue; {reason}"),
            None => format!("{place} in the queue"),
        },
    }
}

/// What the CA wants left alone, and this name with it.
async fn wait(state: &AppState, domain: &Domain) -> (Option<WaitFacts>, Option<Check>) {
    // One that is queued asks as soon as it is its turn, and is told then.
    if domain.state != State::AcmeOrdering || domain.queued_at.is_some() {
        return (None, None);
    }
    let expected = "the CA takes orders for this name".to_owned();
    let (ok, seen, wait) = match within_limit(wait_facts(state, domain)).await {
        Some(Some(wait)) => {
            (false, format!("not until {}: {}", wait.until, wait.words), Some(wait))
        }
        Some(None) => return (None, None),
        None => return (None, Some(unseen("ca", expected, STORE))),
    };
    (wait, Some(Check { name: "ca".to_owned(), ok, expected, seen }))
}

async fn wait_facts(state: &AppState, domain: &Domain) -> Result<Option<WaitFacts>, Problem> {
    let Some(account) = state.store.account(&state.directory, state.limits).await? else {
        return Ok(None);
    };
    let wait = state.store.waiting_for(account.id, &domain.name).await?;
    Ok(wait.map(|CaWait { scope, key, until, reason, .. }| WaitFacts {
        scope,
        key,
        until,
        words: reason,
    }))
}
