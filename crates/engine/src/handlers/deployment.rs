//! `CertificateDeploying`: deployed means seen. What the edges reported decides; where nobody is asked to
//! serve, stored is deployed.

use holdfast_model::{Note, Outcome};
use holdfast_store::{Claimed, DeploymentStatus, Error, Products, UNUSABLE};

use super::{
    Step,
    damage::{self, Stored},
};
use crate::{Deployment, dispatch::Shared};

pub(super) async fn look(shared: &Shared, claimed: &Claimed) -> Result<Step, Error> {
    if shared.config.deployment == Deployment::Stored {
        return Ok(Outcome::DeploymentSeen.into());
    }
    let domain = &claimed.domain;
    let status = shared.store.deployment(domain.id).await?;
    if is_unusable(&status)
        && let Stored::Damaged(note) = damage::read(shared, domain).await?
    {
        return Ok(damage::replace(shared, domain, note, shared.clock.now()).await?.into());
    }
    // No revision, or a removal's: the certificate was never handed to the edges in this life of the name.
    let deploy = status.revision.is_none() || status.tombstone;
    let outcome = judge(&status);
    Ok(Step { outcome, products: Products { deploy, ..Products::default() } })
}

/// Did an edge say that it cannot load the certificate? However often it tries, it will not, if the stored one is damaged.
fn is_unusable(status: &DeploymentStatus) -> bool {
    status.refused.iter().any(|(_, note)| note.code == UNUSABLE)
}

/// What the reports amount to.
pub(super) fn judge(status: &DeploymentStatus) -> Outcome {
    let pending =
        |code, detail: String| Outcome::DeploymentPending { note: Note::new(code, detail) };
    if status.revision.is_none() || status.tombstone {
        return pending("edges-applying", "handed to the edges just now".to_owned());
    }
    if status.live == 0 {
        return pending("no-live-edge", "no edge of its group reported lately".to_owned());
    }
    if status.behind > 0 {
        return pending(
            "edges-applying",
            format!("{} of {} live edges are applying", status.behind, status.live),
        );
    }
    if status.serving > 0 {
        return Outcome::DeploymentSeen;
    }
    let reasons: Vec<_> =
        status.refused.iter().map(|(edge, note)| format!("{edge}: {}", note.detail)).collect();
    Outcome::DeploymentRefused { note: Note::new("edge-refused", reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use holdfast_model::OutcomeKind;
    use holdfast_store::Revision;

    use super::*;

    #[track_caller]
    fn check(live: u32, behind: u32, serving: u32, refused: usize, expected: OutcomeKind) {
        let status = DeploymentStatus {
            revision: Some(Revision::default()),
            live,
            behind,
            serving,
            refused: vec![("a".into(), Note::new("x", "y")); refused],
            ..DeploymentStatus::default()
        };
        assert_eq!(judge(&status).kind(), expected);
    }

    #[test]
    fn one_seen_and_none_behind_is_deployed() {
        check(0, 0, 0, 0, OutcomeKind::DeploymentPending);
        check(2, 1, 1, 0, OutcomeKind::DeploymentPending);
        check(2, 0, 2, 0, OutcomeKind::DeploymentSeen);
        check(2, 0, 1, 1, OutcomeKind::DeploymentSeen);
        check(2, 1, 0, 1, OutcomeKind::DeploymentPending);
        check(2, 0, 0, 2, OutcomeKind::DeploymentRefused);
    }
}
