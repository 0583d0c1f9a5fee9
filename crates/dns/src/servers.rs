//! The resolvers we ask: who is asked first, who next, and whose answer counts.
//!
//! The next one is asked when those before it failed or did not answer for a while, and all are listened to until the end. A
//! failure (SERVFAIL, REFUSED) is believed when no other server has an answer; so one that is dead, slow or broken costs a moment,
//! and only until another has answered in its place: that one is asked first from then on.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until};

use crate::End;
use crate::exchange;
use crate::question::Question;
use crate::reply::Reply;

/// The servers, and what is known of them.
#[derive(Debug)]
pub(crate) struct Servers {
    servers: Vec<SocketAddr>,
    /// Who is asked first.
    preferred: AtomicUsize,
    /// When anything was last heard of any of them.
    heard_at: Mutex<Option<Instant>>,
}

/// How long a question takes at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Until the next server is asked as well, and the one that was asked is asked again.
    pub(crate) step: Duration,
    /// For another opinion after a failure.
    pub(crate) opinion: Duration,
    /// When it ends.
    pub(crate) until: Instant,
}

/// A question to some of the servers.
struct Asking<'a> {
    servers: &'a Servers,
    question: &'a Question,
    patience: Patience,
    /// Places of those who were not asked yet.
    left: VecDeque<usize>,
    under_way: FuturesUnordered<BoxFuture<'a, (usize, Reply)>>,
    /// The failure that stands unless there is an answer.
    failure: Option<End>,
    misled: &'a AtomicBool,
}

impl Servers {
    pub(crate) fn new(servers: Vec<SocketAddr>) -> Self {
        Self { servers, preferred: AtomicUsize::new(0), heard_at: Mutex::default() }
    }

    /// Was anything heard of any of them since then?
    pub(crate) fn answered_since(&self, then: Instant) -> bool {
        self.heard_at.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at >= then)
    }

    fn heard(&self) {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Asks until there is an answer, all have failed, or it is time.
    pub(crate) async fn ask(&self, question: &Question, patience: Patience) -> Reply {
        let count = self.servers.len();
        let first = self.preferred.load(Ordering::Relaxed);
        let misled = AtomicBool::new(false);
        let asking = Asking {
            servers: self,
            question,
            patience,
            left: (0..count).map(|at| (first + at) % count).collect(),
            under_way: FuturesUnordered::new(),
            failure: None,
            misled: &misled,
        };
        asking.run().await
    }
}

impl Asking<'_> {
    async fn run(mut self) -> Reply {
        loop {
            let another = self.begin();
            if !another && self.under_way.is_empty() {
                return self.without_an_answer();
            }
            let step = Instant::now() + self.patience.step;
            let rest = if another { step.min(self.patience.until) } else { self.patience.until };
            let done = tokio::select! {
                biased;
                Some(done) = self.under_way.next() => Some(done),
                () = sleep_until(rest) => None,
            };
            match done {
                Some((at, reply)) if is_answer(&reply) => {
                    self.servers.preferred.store(at, Ordering::Relaxed);
                    return reply;
                }
                Some((_, Reply::Nothing(end))) => self.failed(end),
                _ if Instant::now() >= self.patience.until => return self.without_an_answer(),
                _ => {}
            }
        }
    }

    /// Asks the next server. Was there one?
    fn begin(&mut self) -> bool {
        let next = self.left.pop_front();
        let server = next.and_then(|at| Some((at, *self.servers.servers.get(at)?)));
        let Some((at, server)) = server else { return false };
        let (servers, question, misled) = (self.servers, self.question, self.misled);
        let again = self.patience.step;
        let asked = async move {
            let strange = || {
                servers.heard();
                misled.store(true, Ordering::Relaxed);
            };
            let reply = exchange::ask(server, question, again, &strange).await;
            if !matches!(reply, Reply::Nothing(End::ResolverUnreachable)) {
                servers.heard();
            }
            (at, reply)
        };
        self.under_way.push(asked.boxed());
        true
    }

    fn failed(&mut self, end: End) {
        // That a server is not there says nothing of the name, and an unreadable answer less than a readable one.
        let weight = |end| match end {
            End::ResolverUnreachable => 0,
            End::Unreadable => 1,
            _ => 2,
        };
        if self.failure.is_none_or(|before| weight(end) > weight(before)) {
            self.failure = Some(end);
        }
        if end != End::ResolverUnreachable {
            self.patience.until = self.patience.until.min(Instant::now() + self.patience.opinion);
        }
    }

    fn without_an_answer(&self) -> Reply {
        let silent = !self.under_way.is_empty() || !self.left.is_empty();
        Reply::Nothing(match self.failure {
            // Another one may be there and wait for the name's servers.
            None | Some(End::ResolverUnreachable) if silent => {
                match self.misled.load(Ordering::Relaxed) {
                    true => End::Unreadable,
                    false => End::Timeout,
                }
            }
            None => End::Timeout,
            Some(end) => end,
        })
    }
}

/// Does this reply end the question? A failure does not while another server may know more.
fn is_answer(reply: &Reply) -> bool {
    matches!(reply, Reply::Records { .. } | Reply::Nothing(End::NoRecords | End::NxDomain))
}
