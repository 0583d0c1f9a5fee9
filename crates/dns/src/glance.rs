//! A short look. What answers at once is judged by it; silence within so short a time is no verdict, and asks for a whole look.

use std::sync::Arc;
use std::time::Duration;

use holdfast_model::Note;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::{Cause, Expectation, Finding, HttpReply, Limits, Resolver, Seen, Verdict, detail};

/// For one question; it is repeated well before.
const QUERY: Duration = Duration::from_millis(900);
/// For all questions to DNS.
const LOOK: Duration = Duration::from_millis(1_200);
/// For a request over HTTP.
const HTTP: Duration = Duration::from_millis(1_500);

/// What a short look came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glance {
    /// A whole look would have seen the same.
    Clear(Box<Finding>),
    /// Something did not answer in so short a time. Nobody is to blame for that yet.
    Silent(Note),
}

/// A place among the glances, or the whole looks, that are under way.
#[derive(Debug)]
pub struct Turn {
    _place: Option<OwnedSemaphorePermit>,
}

impl Turn {
    pub(crate) async fn of(room: &Arc<Semaphore>) -> Self {
        // It is never closed.
        Self { _place: room.clone().acquire_owned().await.ok() }
    }
}

impl Resolver {
    /// Waits until there is room for one more glance.
    pub async fn turn(&self) -> Turn {
        Turn::of(&self.glances).await
    }

    /// Looks at a name for a moment.
    pub async fn glance(&self, expectation: &Expectation, _turn: Turn) -> Glance {
        let (limits, began) = (short(self.limits), Instant::now());
        let finding = self.look_within(expectation, limits).await;
        let hurried = began.elapsed() >= limits.http;
        match is_clear(&finding.seen, finding.verdict, hurried) {
            true => Glance::Clear(Box::new(finding)),
            false => Glance::Silent(unclear(&finding)),
        }
    }
}

/// What keeps us from seeing is told; what keeps the name from answering is not known yet.
fn unclear(finding: &Finding) -> Note {
    let ours = finding.note().filter(|note| note.code == Note::DNS_RESOLVER_UNREACHABLE);
    ours.unwrap_or_else(|| Note::new(Note::DNS_SILENT, detail::hurried(&finding.expected)))
}

fn short(limits: Limits) -> Limits {
    Limits {
        query: limits.query.min(QUERY),
        look: limits.look.min(LOOK),
        http: limits.http.min(HTTP),
        ..limits
    }
}

/// Would more patience have led to the same verdict?
fn is_clear(seen: &Seen, verdict: Verdict, hurried: bool) -> bool {
    let silent = seen.ipv4.is_silent() || seen.ipv6.is_silent();
    let unheard = hurried && seen.http.iter().any(|answer| answer.reply == HttpReply::None);
    match verdict {
        // The other family may lead elsewhere.
        Verdict::Pointed { .. } => !silent,
        Verdict::NotPointed(cause) => match cause {
            Cause::Timeout
            | Cause::Unreadable
            | Cause::ResolverUnreachable
            | Cause::TargetSilent => false,
            // The other family may lead to us.
            Cause::Servfail | Cause::Refused => !silent,
            Cause::AddressElsewhere | Cause::CnameElsewhere | Cause::StaleAaaa => !unheard,
            Cause::NxDomain | Cause::NoRecords | Cause::CnameLoop | Cause::ChainTooLong => true,
        },
    }
}
