//! Looks again at what is served: at every heartbeat whether the proxy answers at all, and at a few names in turn.
//!
//! Only names that were served as desired are in it. One that is not any more is handed to the follower, which applies it again and
//! looks; one that is being changed or tried again is the follower's already. What is seen as desired goes out with the next
//! sign of life.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_model::{DomainId, Hostname};
use holdfast_store::{CertificateId, Change, Observation, Revision};
use tokio::sync::Notify;

use super::AgentConfig;
use super::outbox::{Outbox, Topic};
use super::trouble::Trouble;
use crate::checked::{from_hex, hex};
use crate::probe::is_an_answer;
use crate::{Error, Result, Target};

/// So many names are looked at with every heartbeat.
const NAMES: usize = 8;

/// So many names are known at most: a target that keeps nothing may have any number.
const LIMIT: usize = 100_000;

/// How long a proxy may be away without being told of: a restart takes a moment.
const MOMENT: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Watch {
    state: Mutex<State>,
    doubtful: Notify,
    /// Does the target load what it serves by itself, so that it has names that are not known here?
    loads_by_itself: AtomicBool,
}

#[derive(Default)]
struct State {
    served: BTreeMap<Hostname, Served>,
    /// The name that was looked at last.
    last: Option<Hostname>,
    /// Names that were seen otherwise than this.
    doubts: BTreeMap<Hostname, [u8; 32]>,
}

/// A change in few bytes: there may be very many.
struct Served {
    domain: DomainId,
    certificate: CertificateId,
    sha256: [u8; 32],
    revision: Revision,
}

impl Served {
    fn change(&self, name: &Hostname) -> Change {
        let certificate = Some((self.certificate, hex(&self.sha256)));
        Change { name: name.clone(), domain: self.domain, certificate, revision: self.revision }
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name is served as this change wants it.
    pub(super) fn is_served(&self, change: &Change) {
        let wanted = change.certificate.as_ref();
        let wanted = wanted.and_then(|(id, sha256)| Some((*id, from_hex(sha256)?)));
        let mut state = self.lock();
        let Some((certificate, sha256)) = wanted else {
            state.served.remove(&change.name);
            return;
        };
        if state.served.len() < LIMIT || state.served.contains_key(&change.name) {
            let (domain, revision) = (change.domain, change.revision);
            let served = Served { domain, certificate, sha256, revision };
            state.served.insert(change.name.clone(), served);
        }
    }

    /// The name is not served as desired, or that is not known.
    pub(super) fn forget(&self, name: &Hostname) {
        self.lock().served.remove(name);
    }

    /// Nothing is known any more of what is served.
    pub(super) fn forget_all(&self) {
        self.lock().served.clear();
    }

    /// The target has names that are not known here.
    pub(super) fn loads_by_itself(&self) {
        self.loads_by_itself.store(true, Relaxed);
    }

    /// Those whose turn it is.
    fn next(&self) -> Vec<Change> {
        let mut state = self.lock();
        let State { served, last, .. } = &mut *state;
        let after = match last {
            Some(last) => served.range::<Hostname, _>((Excluded(&*last), Unbounded)),
            None => served.range::<Hostname, _>(..),
        };
        // From the beginning again, but none twice.
        let count = NAMES.min(served.len());
        let next = after.chain(served.iter()).take(count);
        let next: Vec<_> = next.map(|(name, served)| served.change(name)).collect();
        *last = next.last().map(|change| change.name.clone());
        next
    }

    /// Is there anything that the proxy should answer for?
    fn is_idle(&self) -> bool {
        !self.loads_by_itself.load(Relaxed) && self.lock().served.is_empty()
    }

    /// What was seen as desired is told, unless something newer was seen meanwhile.
    fn confirm(&self, change: &Change, outbox: &Outbox) {
        let state = self.lock();
        if let Some((_, sha256)) = &change.certificate
            && state.has(&change.name, from_hex(sha256))
        {
            let sha256 = Some(sha256.clone());
            outbox.saw_again(Observation { domain: change.domain, sha256, error: None });
        }
    }

    /// Was seen otherwise than this change wants it.
    fn doubt(&self, change: &Change) {
        let Some(sha256) = change.certificate.as_ref().and_then(|(_, sha256)| from_hex(sha256))
        else {
            return;
        };
        self.lock().doubts.insert(change.name.clone(), sha256);
        self.doubtful.notify_one();
    }

    /// Waits until something was seen that should not be.
    pub(super) async fn doubted(&self) {
        self.doubtful.notified().await;
    }

    /// What was not served as desired, and was not changed since it was looked at. It is the follower's from now on.
    pub(super) fn take_doubts(&self) -> Vec<Change> {
        let mut state = self.lock();
        let doubts = std::mem::take(&mut state.doubts);
        let still = doubts.into_iter().filter(|(name, sha256)| state.has(name, Some(*sha256)));
        let names: Vec<_> = still.map(|(name, _)| name).collect();
        let taken = names.iter().filter_map(|name| Some(state.served.remove(name)?.change(name)));
        taken.collect()
    }
}

impl State {
    fn has(&self, name: &Hostname, sha256: Option<[u8; 32]>) -> bool {
        self.served.get(name).is_some_and(|served| Some(served.sha256) == sha256)
    }
}

/// Runs for ever.
pub(super) async fn run(
    target: &dyn Target,
    config: &AgentConfig,
    outbox: &Outbox,
    watch: &Watch,
) -> Error {
    let mut trouble = Trouble::new("the edge's proxy answers no visitors");
    let mut is_down = false;
    loop {
        if !is_down {
            tokio::time::sleep(config.heartbeat).await;
        }
        match look(target, outbox, watch).await {
            Ok(()) => {
                trouble.is_over();
                outbox.complain(Topic::Proxy, None);
                if std::mem::take(&mut is_down) {
                    // It may have come back with anything.
                    outbox.mended();
                }
            }
            Err(error) => {
                is_down = true;
                outbox.complain(Topic::Proxy, Some(error.note()));
                trouble.rest_after(&error).await;
            }
        }
    }
}

/// Looks at the names whose turn it is. An error means that the proxy answers nobody.
async fn look(target: &dyn Target, outbox: &Outbox, watch: &Watch) -> Result<()> {
    if watch.is_idle() {
        return Ok(());
    }
    let names = watch.next();
    let looks =
        names.iter().map(|change| async move { (change, target.probe(&change.name).await) });
    let (mut answers, mut wrong) = (false, Vec::new());
    for (change, seen) in join_all(looks).await {
        answers |= !matches!(&seen, Err(Error::Unseen { source, .. }) if !is_an_answer(source));
        let wanted = change.certificate.as_ref().map(|(_, sha256)| sha256);
        let is_right = matches!(&seen, Ok(seen) if seen.as_ref() == wanted);
        let outcome = if is_right { "as-desired" } else { "otherwise" };
        metrics::counter!("holdfast_agent_handshakes_total", "seen" => outcome).increment(1);
        match is_right {
            true => watch.confirm(change, outbox),
            false if is_silence(&seen) => {}
            false => wrong.push(change),
        }
    }
    if !answers {
        if !names.is_empty() {
            tokio::time::sleep(MOMENT).await;
        }
        target.answers().await?;
    }
    wrong.into_iter().for_each(|change| watch.doubt(change));
    Ok(())
}

/// Was nothing seen at all? That says nothing of the name.
fn is_silence(seen: &Result<Option<String>>) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, TimedOut};
    let kind = match seen {
        Err(Error::Unseen { source, .. }) => source.kind(),
        _ => return false,
    };
    matches!(kind, TimedOut | ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn change(name: &str, digit: &str) -> Change {
        Change {
            name: Hostname::parse(name).unwrap(),
            domain: DomainId::new(),
            certificate: Some((CertificateId(Uuid::new_v4()), digit.repeat(64))),
            revision: Revision::default(),
        }
    }

    fn names(changes: &[Change]) -> Vec<&str> {
        changes.iter().map(|change| change.name.as_str()).collect()
    }

    #[test]
    fn every_name_has_its_turn() {
        let watch = Watch::default();
        assert!(watch.next().is_empty() && watch.is_idle());
        for n in 0..12 {
            watch.is_served(&change(&format!("n{n:02}.test"), "a"));
        }
        let first = watch.next();
        assert_eq!((first.len(), names(&first)[0], names(&first)[7]), (8, "n00.test", "n07.test"));
        watch.forget(&first[7].name);
        let second = watch.next();
        assert_eq!(
            names(&second)[..5],
            ["n08.test", "n09.test", "n10.test", "n11.test", "n00.test"]
        );
        // Of few, none is looked at twice at once.
        for n in 2..12 {
            watch.forget(&Hostname::parse(&format!("n{n:02}.test")).unwrap());
        }
        assert_eq!(watch.next().len(), 2);
    }

    #[test]
    fn what_was_changed_since_is_neither_doubted_nor_confirmed() {
        let (watch, outbox) = (Watch::default(), Outbox::new(Revision::default()));
        let old = change("a.test", "a");
        let new = Change { certificate: change("a.test", "b").certificate, ..old.clone() };
        watch.is_served(&old);
        watch.doubt(&old);
        watch.is_served(&new);
        assert!(watch.take_doubts().is_empty());
        watch.confirm(&old, &outbox);
        assert!(outbox.draft(10).observations.is_empty());
        watch.confirm(&new, &outbox);
        assert_eq!(outbox.draft(10).observations.len(), 1);
        watch.doubt(&new);
        assert_eq!(watch.take_doubts(), [new]);
        // It is the follower's now.
        assert!(watch.next().is_empty() && watch.take_doubts().is_empty());
    }
}
