//! Many visitors at once, again and again; half of them resume sessions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use holdfast_testkit::eventually;
use tokio::task::JoinHandle;

use super::{LIMIT, Visitor};

const VISITORS: u64 = 24;

#[derive(Default)]
struct Count {
    handshakes: AtomicU64,
    resumed: AtomicU64,
    failures: Mutex<Vec<String>>,
    done: AtomicBool,
}

pub(crate) struct Crowd {
    count: Arc<Count>,
    visits: Vec<JoinHandle<()>>,
}

/// What a crowd has seen in all.
pub(crate) struct Seen {
    pub(crate) handshakes: u64,
    pub(crate) resumed: u64,
    pub(crate) failures: Vec<String>,
}

impl Crowd {
    pub(crate) fn start(visitor: impl Fn() -> Visitor, hosts: &'static [&'static str]) -> Self {
        let count = Arc::new(Count::default());
        let visits = (0..VISITORS)
            .map(|n| {
                let visitor = visitor();
                let visitor = match n % 2 {
                    0 => visitor.resuming(),
                    _ => visitor.never_resuming(),
                };
                tokio::spawn(keep_visiting(visitor, count.clone(), hosts))
            })
            .collect();
        Self { count, visits }
    }

    /// Waits until about everybody has been there once more: without visits in between a swap would prove nothing.
    pub(crate) async fn one_more_round(&self) {
        let before = self.count.handshakes.load(Relaxed);
        eventually(LIMIT, "more visits", async || {
            let now = self.count.handshakes.load(Relaxed);
            if now >= before + VISITORS { Ok(()) } else { Err(now - before) }
        })
        .await;
    }

    pub(crate) async fn stop(self) -> Seen {
        self.count.done.store(true, Relaxed);
        for visit in self.visits {
            visit.await.unwrap();
        }
        Seen {
            handshakes: self.count.handshakes.load(Relaxed),
            resumed: self.count.resumed.load(Relaxed),
            failures: std::mem::take(&mut self.count.failures.lock().unwrap()),
        }
    }
}

async fn keep_visiting(visitor: Visitor, count: Arc<Count>, hosts: &'static [&'static str]) {
    for host in hosts.iter().cycle() {
        if count.done.load(Relaxed) {
            return;
        }
        match visitor.visit(host).await {
            Ok(visit) if visit.answer.starts_with("HTTP/1.1 200") => {
                count.handshakes.fetch_add(1, Relaxed);
                count.resumed.fetch_add(u64::from(visit.resumed), Relaxed);
            }
            wrong => count.failures.lock().unwrap().push(format!("{host}: {wrong:?}")),
        }
    }
}
