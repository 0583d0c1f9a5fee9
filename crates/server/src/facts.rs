//! What `explain` needs beside the domain's row: DNS, the queue at the CA, the edges. Each part has its own time limit
//! and may be missing; then the explanation says so instead of failing.

mod authority;

use std::future::Future;
use std::time::Duration;

use holdfast_dns::{Expectation, HttpProof};
use holdfast_model::{Check, Domain, EdgeFacts, EdgeTrouble, Facts, Note, Obstacle};
use holdfast_store::DeploymentStatus;
use uuid::Uuid;

pub(crate) use self::authority::is_asked;
use self::authority::{Authority, authority};
use crate::view::{alternatives, sentence};
use crate::{AppState, Problem, database, proof};

/// Longest look at DNS: who asks is waiting.
const DNS: Duration = Duration::from_secs(4);

/// What an edge says of every name while its agent only looks.
const OBSERVES_ONLY: &str = "edge-observes-only";

/// Longest question to the store.
const STORE: Duration = Duration::from_secs(3);

/// Gathers what can be had.
pub(crate) async fn gather(state: &AppState, domain: &Domain) -> Facts {
    let required = sentence(&alternatives(domain, &state.addresses));
    if domain.removed_at.is_some() {
        return Facts { required, ..Facts::default() };
    }
    let (obstacle, dns, authority, edges) = tokio::join!(
        obstacle(state),
        dns(state, domain),
        authority(state, domain),
        edges(state, domain)
    );
    let Authority { queue, wait, ca, check } = authority;
    let checks = [Some(dns.check), check, edges.1].into_iter().flatten().collect();
    Facts {
        now: Some(state.cluster.clock().now()),
        obstacle,
        dns: dns.note,
        dns_is_right: dns.is_right,
        queue,
        ca,
        wait,
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
