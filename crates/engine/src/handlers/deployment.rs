//! `CertificateDeploying`: deployed means seen. What the edges reported decides; where nobody is asked to
//! serve, stored is deployed.

use holdfast_model::{Note, Outcome};
use holdfast_store::{Claimed, DeploymentStatus, Error, Products, UNUSABLE};

use super::{
    Step,
    damage::{self, Stored},
    renewal,
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
    let mut outcome = judge(&status);
    // Edges that never come must not let it run out.
    if outcome != Outcome::DeploymentSeen && renewal::is_overdue(shared, domain).await? {
        outcome = Outcome::RenewalNeeded;
    }
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
    // An edge that is out of order as a whole may take it as soon as it is mended.
    if status.refused.is_empty() {
        return pending("edge-error", told(&status.broken));
    }
    let reasons = [told(&status.refused), told(&status.broken)];
    let reasons: Vec<_> = reasons.into_iter().filter(|one| !one.is_empty()).collect();
    Outcome::DeploymentRefused { note: Note::new("edge-refused", reasons.join("; ")) }
}

/// What edges say, each by its name.
fn told(edges: &[(String, Note)]) -> String {
    let words: Vec<_> =
        edges.iter().map(|(edge, note)| format!("{edge}: {}", note.detail)).collect();
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use holdfast_model::OutcomeKind;
    use holdfast_store::Revision;

    use super::*;

    fn status(live: u32, behind: u32, serving: u32, refused: usize) -> DeploymentStatus {
        DeploymentStatus {
            revision: Some(Revision::default()),
            live,
            behind,
            serving,
            refused: vec![("a".into(), Note::new("x", "y")); refused],
            ..DeploymentStatus::default()
        }
    }

    #[track_caller]
    fn check(live: u32, behind: u32, serving: u32, refused: usize, expected: OutcomeKind) {
        assert_eq!(judge(&status(live, behind, serving, refused)).kind(), expected);
    }

    #[test]
    fn one_that_is_out_of_order_as_a_whole_is_not_waited_for() {
        let broken = |behind, serving, refused| DeploymentStatus {
            broken: vec![("b".into(), Note::new("edge-reload-failed", "exit status: 1"))],
            ..status(3, behind, serving, refused)
        };
        assert_eq!(judge(&broken(0, 1, 0)), Outcome::DeploymentSeen);
        assert_eq!(judge(&broken(1, 1, 0)).kind(), OutcomeKind::DeploymentPending);
        let Outcome::DeploymentPending { note } = judge(&broken(0, 0, 0)) else { panic!() };
        assert_eq!((&*note.code, note.detail.as_str()), ("edge-error", "b: exit status: 1"));
        let Outcome::DeploymentRefused { note } = judge(&broken(0, 0, 1)) else { panic!() };
        assert_eq!(note.detail, "a: y; b: exit status: 1");
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
