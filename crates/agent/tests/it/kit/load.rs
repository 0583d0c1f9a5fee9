//! Visitors who come without pause to names that are served, and look closely at what they get.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use holdfast_testkit::eventually;
use tokio::task::JoinHandle;

use super::{LIMIT, Proxied, Visitor};

const VISITORS: u64 = 6;

/// Which certificate is right for a name; that it is for the name and valid is seen to by TLS.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Any,
    Only(String),
}

#[derive(Default)]
struct Shared {
    hosts: Mutex<HashMap<String, Host>>,
    names: Mutex<Vec<String>>,
    visits: AtomicU64,
    wrong: Mutex<Vec<String>>,
    done: AtomicBool,
}

pub(crate) struct Load {
    shared: Arc<Shared>,
    visitors: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(edge: &Proxied) -> Self {
        let shared = Arc::new(Shared::default());
        let visitors = (0..VISITORS).map(|_| tokio::spawn(visit(edge.visitor(), shared.clone())));
        Self { visitors: visitors.collect(), shared }
    }

    /// From now on the name must be served, and so.
    pub(crate) fn serves(&self, name: &str, host: Host) {
        if self.shared.hosts.lock().unwrap().insert(name.to_owned(), host).is_none() {
            self.shared.names.lock().unwrap().push(name.to_owned());
        }
    }

    pub(crate) async fn one_more_round(&self) {
        let before = self.shared.visits.load(Relaxed);
        eventually(LIMIT, "more visits", async || {
            let now = self.shared.visits.load(Relaxed);
            if now >= before + 10 * VISITORS { Ok(()) } else { Err(now - before) }
        })
        .await;
    }

    /// Ends it; gives how many visits there were, none of them wrong.
    pub(crate) async fn stop(self) -> u64 {
        self.shared.done.store(true, Relaxed);
        for visitor in self.visitors {
            visitor.await.unwrap();
        }
        assert_eq!(*self.shared.wrong.lock().unwrap(), Vec::<String>::new());
        self.shared.visits.load(Relaxed)
    }
}

async fn visit(visitor: Visitor, shared: Arc<Shared>) {
    while !shared.done.load(Relaxed) {
        let Some(name) = pick(&shared) else {
            tokio::task::yield_now().await;
            continue;
        };
        // What was right when the visit began is right, and so is what is newer.
        let before = shared.hosts.lock().unwrap().get(&name).cloned();
        let seen = visitor.visit(&name).await;
        let after = shared.hosts.lock().unwrap().get(&name).cloned();
        let verdict = match (seen, before) {
            (Ok(visit), _) if !visit.answer.starts_with("HTTP/1.1 200") => Some(visit.answer),
            (Ok(visit), Some(Host::Only(wanted)))
                if visit.sha256 != wanted && after == Some(Host::Only(wanted.clone())) =>
            {
                Some(format!("{} instead of {wanted}", visit.sha256))
            }
            (Ok(_), _) => None,
            (Err(error), _) => Some(error.to_string()),
        };
        shared.visits.fetch_add(1, Relaxed);
        if let Some(wrong) = verdict {
            shared.wrong.lock().unwrap().push(format!("{name}: {wrong}"));
        }
    }
}

fn pick(shared: &Shared) -> Option<String> {
    let names = shared.names.lock().unwrap();
    let random = usize::try_from(RandomState::new().hash_one(0) >> 1).unwrap();
    names.get(random.checked_rem(names.len())?).cloned()
}
