//! What `explain` needs beside the domain's row: DNS, the queue at the CA, the edges. Each part has its own time limit
//! and may be missing; then the explanation says so instead of failing.

use std::future::Future;
use std::time::Duration;

use holdfast_dns::{Expectation, HttpProof};
use holdfast_model::{
    Check, Domain, EdgeFacts, EdgeTrouble, Facts, Note, Obstacle, QueueFacts, State, WaitFacts,
};
use holdfast_store::{CaWait, DeploymentStatus, QueueStanding};
use uuid::Uuid;

use crate::view::{alternatives, sentence};
use crate::{AppState, Problem, database, proof};

/// Longest look at DNS: who asks is waiting.
const DNS: Duration = Duration::from_secs(4);

/// What an edge says of every name while its agent only looks.
const OBSERVES_ONLY: &str = "edge-observes-only";

/// Longest question to the store.
const STORE: Duration = Duration::from_secs(3);

/// The longest a replica keeps away from a CA that it could not reach, or that sent it away.
const STAYS_AWAY: Duration = Duration::from_secs(3600);

/// Gathers what can be had.
pub(crate) async fn gather(state: &AppState, domain: &Domain) -> Facts {
    let required = sentence(&alternatives(domain, &state.addresses));
    if domain.removed_at.is_some() {
        return Facts { required, ..Facts::default() };
    }
    let (obstacle, dns, queue, wait, edges) = tokio::join!(
        obstacle(state),
        dns(state, domain),
        queue(state, domain),
        wait(state, domain),
        edges(state, domain)
    );
    let checks = [Some(dns.check), queue.1, wait.1, edges.1].into_iter().flatten().collect();
    Facts {
        obstacle,
        dns: dns.note,
        dns_is_right: dns.is_right,
        queue: queue.0,
        wait: wait.0,
        edges_unknown: edges.0.is_none(),
        edges: edges.0.unwrap_or_default(),
        stored_only: !state.edges_in_use,
        required,
        checks,
    }
}

async fn obstacle(state: &AppState) -> Option<Obstacle> {
    let trouble = database::trouble(state).await?;
    let (cause, fix) = (trouble.code().to_owned(), trouble.fix().to_owned());
    Some(Obstacle { cause, detail: trouble.detail, fix })
}

/// What DNS says now. A look that took too long says nothing: it is neither right nor wrong.
struct DnsNow {
    note: Option<Note>,
    is_right: bool,
    check: Check,
}

async fn dns(state: &AppState, domain: &Domain) -> DnsNow {
    let expectation = expectation(state, domain).await;
    match tokio::time::timeout(DNS, state.look.look(&expectation)).await {
        Ok(finding) => DnsNow {
            note: finding.note(),
            is_right: finding.verdict.is_pointed(),
            check: finding.check(),
        },
        Err(_) => {
            let check = unseen("dns", expectation.to_string(), DNS);
            DnsNow { note: None, is_right: false, check }
        }
    }
}

async fn expectation(state: &AppState, domain: &Domain) -> Expectation {
    let mut expectation = holdfast_engine::expectation(domain, &state.targets, &state.addresses);
    expectation.proof = http_proof(state).await;
    expectation
}

/// A question that only we can answer, where a request over HTTP counts as pointed at us.
async fn http_proof(state: &AppState) -> Option<HttpProof> {
    let port = state.http_proof_port?;
    let nonce = Uuid::new_v4().simple().to_string();
    let answer = within_limit(proof::answer(state, &nonce)).await?;
    Some(HttpProof { nonce, answer, port })
}

async fn queue(state: &AppState, domain: &Domain) -> (Option<QueueFacts>, Option<Check>) {
    if domain.state != State::AcmeOrdering || domain.queued_at.is_none() {
        return (None, None);
    }
    let expected = "orders are taken".to_owned();
    match within_limit(queue_facts(state, domain)).await {
        Some((facts, seen)) => {
            let ok = facts
                .as_ref()
                .is_none_or(|facts| facts.next_slot_at.is_none() && facts.pause_reason.is_none());
            (facts, Some(Check { name: "ca".to_owned(), ok, expected, seen }))
        }
        None => (None, Some(unseen("ca", expected, STORE))),
    }
}

async fn queue_facts(
    state: &AppState,
    domain: &Domain,
) -> Result<(Option<QueueFacts>, String), Problem> {
    let standing = state.store.queue_standing(domain.id).await?;
    let account = state.store.account(&state.directory, state.limits).await?;
    let (Some(QueueStanding { place, is_charged }), Some(account)) = (standing, account) else {
        return Ok((None, "it is not waiting in the queue".to_owned()));
    };
    let now = state.store.ping().await?;
    let paused_until = account.paused_until.filter(|until| *until > now);
    let next_slot_at = account.next_slot_at.filter(|at| *at > now && is_charged);
    // A failure that only one replica has is noted as a pause of a moment; its cause counts while that one may stay away.
    let recent = account.paused_until.is_some_and(|until| now.since(until) < STAYS_AWAY);
    let unusable = account.unusable.map(|why| format!("acme-account-unusable: {why}"));
    let pause_reason = unusable.or(account.pause_reason.filter(|_| recent));
    let seen = match (paused_until, next_slot_at) {
        (Some(until), _) => {
            let reason = pause_reason.as_deref().unwrap_or("no reason was given");
            format!("{place} in the queue; the CA asked to be left alone until {until}: {reason}")
        }
        (None, Some(at)) => {
            format!("{place} in the queue; the budget allows the next order at {at}")
        }
        (None, None) => match &pause_reason {
            Some(reason) => format!("{place} in the queue; {reason}"),
            None => format!("{place} in the queue"),
        },
    };
    Ok((Some(QueueFacts { place, paused_until, pause_reason, next_slot_at }), seen))
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

/// What the edges say; none when it could not be read in time.
async fn edges(state: &AppState, domain: &Domain) -> (Option<EdgeFacts>, Option<Check>) {
    if !state.edges_in_use {
        return (Some(EdgeFacts::default()), None);
    }
    let expected = match &domain.certificate {
        Some(certificate) => {
            format!("edges of group `{}` serve {}", domain.edge_group, certificate.sha256)
        }
        None => format!("edges of group `{}` are live", domain.edge_group),
    };
    let status = async { Ok(state.store.deployment(domain.id).await?) };
    let Some(status) = within_limit(status).await else {
        return (None, Some(unseen("edge", expected, STORE)));
    };
    let mut seen =
        format!("{} live, {} serving it, {} behind", status.live, status.serving, status.behind);
    for (edge, note) in &status.refused {
        seen.push_str(&format!("; `{edge}` refused: {}", note.detail));
    }
    for (edge, note) in &status.broken {
        seen.push_str(&format!("; `{edge}` is out of order: {}", note.detail));
    }
    let is_well = status.refused.is_empty() && status.broken.is_empty();
    let ok = status.behind == 0 && is_well && status.live > 0;
    let check = Check { name: "edge".to_owned(), ok, expected, seen };
    let DeploymentStatus { live, behind, serving, .. } = status;
    let broken = trouble(&status);
    (Some(EdgeFacts { live, behind, serving, broken }), Some(check))
}

/// The first edge that says why it does not serve the name. One that is out of order as a whole comes first, and one that only looks
/// has nothing to be mended.
fn trouble(status: &DeploymentStatus) -> Option<EdgeTrouble> {
    let trouble = |is_whole| {
        move |(edge, note): &(String, Note)| EdgeTrouble {
            edge: edge.clone(),
            note: note.clone(),
            is_whole,
        }
    };
    let refused = status.refused.iter().filter(|(_, note)| note.code != OBSERVES_ONLY);
    status.broken.iter().map(trouble(true)).chain(refused.map(trouble(false))).next()
}

/// What the store says, if it says it in time; a failure is in the log by then.
async fn within_limit<T>(asked: impl Future<Output = Result<T, Problem>>) -> Option<T> {
    match tokio::time::timeout(STORE, asked).await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(problem)) => {
            problem.log();
            None
        }
        Err(_) => None,
    }
}

fn unseen(name: &str, expected: String, limit: Duration) -> Check {
    let seen = format!("nothing: no answer within {} s", limit.as_secs());
    Check { name: name.to_owned(), ok: false, expected, seen }
}
