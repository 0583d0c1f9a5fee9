//! Looking at a challenge: in the background, with a time limit, its outcome noted in the authorization.

mod caa;
mod dns;
mod http;
mod tls;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

use super::Ca;
use super::challenge::ChallengeKind;
use super::problem::{Kind, Problem};
use crate::clock;
use crate::faults::FaultKind;

/// What is to be proven, and how.
#[derive(Clone, Debug)]
struct Task {
    name: String,
    wildcard: bool,
    kind: ChallengeKind,
    token: String,
    key_authorization: String,
    account_url: String,
}

impl Task {
    fn digest(&self) -> Vec<u8> {
        digest(&SHA256, self.key_authorization.as_bytes()).as_ref().to_vec()
    }

    fn digest_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.digest())
    }
}

/// Looks at a challenge that is `processing`, until the CA stops.
pub(crate) fn spawn(ca: &Arc<Ca>, authorization: String, kind: ChallengeKind) {
    let ca = ca.clone();
    tokio::spawn(async move {
        let stop = ca.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = look(&ca, &authorization, kind) => {}
        }
    });
}

async fn look(ca: &Ca, authorization: &str, kind: ChallengeKind) {
    let Some((task, looked_at)) = task(ca, authorization, kind) else { return };
    if let Some(at) = looked_at {
        tokio::time::sleep((at - clock::now()).try_into().unwrap_or_default()).await;
    }
    let limit = ca.settings.validation_limit;
    let outcome = tokio::time::timeout(limit, judge(ca, &task)).await.unwrap_or_else(|_| {
        let detail = format!("looking at {} took longer than {limit:?}", task.name);
        Err(Problem::new(Kind::Connection, detail))
    });
    match &outcome {
        Ok(()) => tracing::debug!(name = task.name, kind = kind.name(), "challenge passed"),
        Err(problem) => {
            let (name, kind) = (&task.name, kind.name());
            tracing::info!(
                name,
                kind,
                reason = problem.detail(),
                "development CA: challenge failed"
            );
        }
    }
    let valid = outcome.is_ok();
    ca.authorizations.update(authorization, |row| row.conclude(kind, outcome));
    if valid {
        ca.note_authorized(authorization);
    }
}

fn task(
    ca: &Ca,
    authorization: &str,
    kind: ChallengeKind,
) -> Option<(Task, Option<time::OffsetDateTime>)> {
    let (account, name, wildcard, challenge) = ca.authorizations.read(authorization, |row| {
        let challenge = row.challenges.iter().find(|one| one.kind == kind).cloned();
        (row.account.clone(), row.name.clone(), row.wildcard, challenge)
    })?;
    let challenge = challenge?;
    let thumbprint = ca.accounts.read(&account, |account| account.key.thumbprint())?;
    let task = Task {
        name,
        wildcard,
        kind,
        key_authorization: format!("{}.{thumbprint}", challenge.token),
        token: challenge.token,
        account_url: ca.account_url(&account),
    };
    Some((task, challenge.looked_at))
}

async fn judge(ca: &Ca, task: &Task) -> Result<(), Problem> {
    let proven = async {
        match task.kind {
            ChallengeKind::Http01 => http::check(ca, task).await,
            ChallengeKind::Dns01 => dns::check(ca, task).await,
            ChallengeKind::TlsAlpn01 => tls::check(ca, task).await,
        }
    };
    // Both are asked at once, as CAs do; that the name is not proven is told first.
    let (proven, allowed) = tokio::join!(proven, caa::check(ca, task));
    proven?;
    if ca.faults.strikes_name(FaultKind::Unauthorized, &task.name) {
        return Err(Problem::unauthorized(format!(
            "the answer for {} is wrong (a fault is switched on)",
            task.name
        )));
    }
    allowed
}
