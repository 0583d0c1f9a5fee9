//! Waiting for a CA that refuses for now. What it refuses has a scope, and nothing else waits: a name, a registered domain, the
//! account on every replica, or this replica alone.

use std::time::Duration;

use holdfast_model::{Domain, Note, Outcome, State, Timestamp, WaitScope};
use holdfast_store::{AccountId, CaWait, Error};

use crate::{concerns::Concerns, dispatch::Shared};

/// The code of a wait that was noted before, as a cause.
const RATE_LIMITED: &str = "acme-rate-limited";
/// The same for one that only a person can end.
const PAUSED: &str = "acme-paused";

/// How many names that were refused in words that nobody knows are compared.
const LOOKED_AT: u32 = 100;
/// How long what others were told counts.
const LATELY: Duration = Duration::from_secs(60);
/// How long the account waits because of words that nobody knows; then one name is asked for again.
const UNKNOWN_LONGEST: Duration = Duration::from_secs(5 * 60);

/// What the CA said, and to what.
pub(crate) struct NotNow {
    pub(crate) scope: WaitScope,
    pub(crate) after: Option<Duration>,
    pub(crate) note: Note,
}

/// Who waits now.
pub(crate) enum Waits {
    /// Everybody who needs an order; the queue stands still until then.
    Everybody(Timestamp),
    /// This replica; other names may fare better at their turn.
    Replica(Timestamp),
    /// This name, and perhaps others below its registered domain.
    Name(Timestamp),
}

/// Makes what is in scope wait, on every replica where the CA limits more than this one.
pub(crate) async fn begin(shared: &Shared, domain: &Domain, said: &NotNow) -> Waits {
    let now = shared.clock.now();
    match said.scope {
        // In the middle of an order it may be about that order: new ones are asked for, and tell.
        WaitScope::Account if domain.state != State::AcmeOrdering => {
            Waits::Name(now.plus(said.scope.bounded(said.after)))
        }
        WaitScope::Account => {
            let wait = said.scope.bounded(said.after);
            shared.way.account_waits(shared, wait, &said.note).await;
            Waits::Everybody(now.plus(wait))
        }
        WaitScope::Server if domain.state != State::AcmeOrdering => {
            Waits::Replica(now.plus(said.scope.bounded(said.after)))
        }
        // Where others get through meanwhile, it is this name that the CA cannot do.
        WaitScope::Server if !shared.way.is_its_own(domain.id, domain.state) => {
            match shared.way.concerns(domain.id) {
                Concerns::Name(times) => {
                    Waits::Name(shared.way.set_aside(shared, times, said.after, &said.note).await)
                }
                Concerns::Unclear | Concerns::Everybody => {
                    let wait = shared.way.sent_away(shared, said.after, &said.note).await;
                    Waits::Replica(now.plus(wait))
                }
            }
        }
        WaitScope::Server => Waits::Name(hold(shared, domain, WaitScope::Unknown, said).await),
        WaitScope::Unknown => {
            let until = hold(shared, domain, said.scope, said).await;
            // A second name in a row that is told the same: then it is about more than names, in words that we do not know.
            let in_a_row = shared.way.is_refused_in_a_row(domain.id);
            if in_a_row && is_told_others(shared, domain, said).await {
                let wait = WaitScope::Account.bounded(said.after).min(UNKNOWN_LONGEST);
                shared.way.account_waits(shared, wait, &said.note).await;
            }
            Waits::Name(until)
        }
        scope => Waits::Name(hold(shared, domain, scope, said).await),
    }
}

/// Was another name told the same within the last minute, but for names and numbers?
async fn is_told_others(shared: &Shared, domain: &Domain, said: &NotNow) -> bool {
    let waits = async {
        let Some(account) = account(shared).await? else { return Ok(Vec::new()) };
        shared.store.waits_noted(account, WaitScope::Unknown, LATELY, LOOKED_AT).await
    };
    let own = masked(&said.note.detail, domain.name.as_str());
    let waits: Vec<CaWait> = waits.await.unwrap_or_default();
    waits
        .iter()
        .any(|wait| wait.key != domain.name.as_str() && masked(&wait.reason, &wait.key) == own)
}

/// A text without the name that it is about, and without numbers.
fn masked(text: &str, name: &str) -> String {
    text.replace(name, "").chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Notes a wait. The name's own row holds it back also where that fails.
async fn hold(shared: &Shared, domain: &Domain, scope: WaitScope, said: &NotNow) -> Timestamp {
    let wait = scope.bounded(said.after);
    let noted = async {
        let Some(account) = account(shared).await? else { return Ok(None) };
        let reason = &said.note.detail;
        shared.store.note_wait(account, scope, &domain.name, wait, reason).await.map(Some)
    };
    let by_the_row = shared.clock.now().plus(wait);
    match noted.await {
        Ok(until) => until.unwrap_or(by_the_row),
        Err(error) => {
            let (name, error) = (&domain.name, &error as &dyn std::error::Error);
            tracing::warn!(%name, error, "the CA's limit could not be stored; other replicas will meet it themselves");
            by_the_row
        }
    }
}

/// What keeps this name from being ordered for now, without asking the CA.
pub(crate) async fn holding(shared: &Shared, domain: &Domain) -> Result<Option<Outcome>, Error> {
    let Some(account) = account(shared).await? else { return Ok(None) };
    let wait = shared.store.waiting_for(account, &domain.name).await?;
    Ok(wait.map(|wait| Outcome::Deferred { until: wait.until, note: note_of(wait) }))
}

fn note_of(wait: CaWait) -> Note {
    let code = if wait.scope == WaitScope::PausedName { PAUSED } else { RATE_LIMITED };
    Note::new(code, wait.reason)
}

/// A person wants it tried now, whatever the CA said before.
pub(crate) async fn lift(shared: &Shared, domain: &Domain) -> Result<(), Error> {
    if let Some(account) = account(shared).await? {
        shared.store.lift_waits(account, &domain.name).await?;
    }
    Ok(())
}

/// The account that there is, whether or not the CA was asked for it.
pub(crate) async fn account(shared: &Shared) -> Result<Option<AccountId>, Error> {
    if let Some(known) = shared.ca.known_account() {
        return Ok(Some(known));
    }
    let account = shared.store.account(shared.ca.directory(), shared.ca.limits()).await?;
    Ok(account.map(|account| account.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_names_and_numbers_alone_is_the_same() {
        let told =
            |name: &str, retry: u32| masked(&format!("slow down, {name} ({retry} s) [429]"), name);
        assert_eq!(told("a.test", 5), told("shop.example.com", 86_400));
        assert_ne!(told("a.test", 5), masked("b.test is under review", "b.test"));
    }
}
