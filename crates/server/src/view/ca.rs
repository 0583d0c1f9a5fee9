//! CAs: the account there, what it may order, and what keeps it from ordering.

use holdfast_model::Timestamp;
use holdfast_store::{COUNTED, CaAccount, CaWait, OrderLimits, QueueCounts, Terms};
use serde::Serialize;
use utoipa::ToSchema;

use crate::facts::is_asked;

/// A CA that orders are, or were, made at.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ca)]
pub(crate) struct CaView {
    /// `[acme] name`, or the host of the directory.
    pub(crate) name: String,
    /// The ACME directory.
    directory: String,
    /// Is it the one that new orders are made at?
    active: bool,
    /// Does the CA accept the account, and answer? A pause alone is no fault.
    healthy: bool,
    /// Why it is not healthy.
    reason: Option<String>,
    /// Until when nothing is ordered; null when nothing keeps it from ordering, or when only a person ends that.
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_until: Option<Timestamp>,
    /// What keeps it from ordering, each by itself.
    pauses: Vec<PauseView>,
    /// Who last lifted a pause by hand; null when nobody did.
    resumed: Option<ResumeView>,
    /// The account; null until there is one.
    account: Option<CaAccountView>,
    /// How many orders may be made.
    limits: Vec<LimitView>,
    /// Orders that are open at the CA.
    in_flight: u32,
    /// Domains that wait for an order.
    queued: QueuedView,
    /// When the budget has room for all that wait in the queue now; null when none waits, when more wait than are counted, while
    /// only a person ends a pause, and while the CA is not healthy.
    #[schema(value_type = Option<String>, format = DateTime)]
    drains_at: Option<Timestamp>,
}

/// The account at a CA.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CaAccount)]
pub(crate) struct CaAccountView {
    /// The CA's URL of it; null until the CA has answered.
    url: Option<String>,
    /// Where the CA's terms are, as last seen.
    terms: Option<String>,
    /// When they were agreed to.
    #[schema(value_type = Option<String>, format = DateTime)]
    terms_agreed_at: Option<Timestamp>,
}

/// Something that keeps a CA from being ordered at.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CaPause)]
pub(crate) struct PauseView {
    /// What is paused: `account` is all of it; `name`, `exact-set`, `registered-domain`, `paused-name` and `unknown` are about `key` alone.
    scope: &'static str,
    /// Which name or registered domain; null where it is the account.
    key: Option<String>,
    /// Why: `by-hand`, `acme-rate-limited`, or the code of what went wrong.
    cause: String,
    /// In words.
    detail: String,
    /// Since when.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// When it ends; null: when a person resumes it.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Who set it: a token's name, or `ca`.
    by: String,
}

/// That a pause was lifted by hand.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CaResume)]
pub(crate) struct ResumeView {
    /// When.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// By whom: a token's name.
    by: String,
}

/// How many orders of a class may be made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CaLimit)]
pub(crate) struct LimitView {
    /// What is limited.
    scope: &'static str,
    /// Which orders: `new`. Renewals are not limited by it.
    class: &'static str,
    /// How many may be made now.
    left: u32,
    /// Of how many.
    of: u32,
    /// When all of them may be made again; null when they may now.
    #[schema(value_type = Option<String>, format = DateTime)]
    refills_at: Option<Timestamp>,
}

/// Domains that wait for an order, up to 10,000 of each class.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = CaQueue)]
pub(crate) struct QueuedView {
    /// Those that the budget is charged for.
    new: u64,
    /// Renewals, which it is not.
    renewal: u64,
    /// Renewals that the CA exempts from every limit; not told apart yet.
    ari: u64,
}

/// What a CA is called where nobody named it: the host of its directory.
pub(crate) fn host(directory: &str) -> String {
    let uri = directory.parse::<http::Uri>().ok();
    let host = uri.as_ref().and_then(http::Uri::host);
    host.unwrap_or(directory).trim_matches(['[', ']']).to_owned()
}

/// What is known of a CA beside its account's row.
#[derive(Debug, Default)]
pub(crate) struct CaExtras {
    /// Where its terms are.
    pub(crate) terms: Option<Terms>,
    /// For the one that is ordered at: its limits, and who waits for an order.
    pub(crate) active: Option<(OrderLimits, QueueCounts)>,
    /// Names and registered domains that it wants left alone, some of each.
    pub(crate) waits: Vec<CaWait>,
}

/// Is all well with it, and if not, why?
fn health(account: &CaAccount) -> (bool, Option<String>) {
    let paused = account.paused.and(account.pause_reason.as_deref());
    let paused = paused.filter(|reason| !is_asked(reason)).map(ToOwned::to_owned);
    let failing = account.failing.as_ref();
    let failing = failing.map(|(since, how)| format!("it has failed since {since}: {how}"));
    let reason = account.unusable.clone().or(failing).or(paused);
    (reason.is_none(), reason)
}

/// All that keeps it from ordering.
fn pauses(account: &CaAccount) -> Vec<PauseView> {
    let by_hand = account.halt.iter().map(|halt| PauseView {
        scope: "account",
        key: None,
        cause: "by-hand".to_owned(),
        detail: "nothing is ordered".to_owned(),
        since: Some(halt.since),
        until: halt.until,
        by: halt.by.clone(),
    });
    let asked = account.paused.iter().map(|(since, until)| {
        let reason = account.pause_reason.as_deref().unwrap_or_default();
        let (cause, detail) = reason.split_once(": ").unwrap_or(("acme-rate-limited", reason));
        PauseView {
            scope: "account",
            key: None,
            cause: cause.to_owned(),
            detail: detail.to_owned(),
            since: *since,
            until: Some(*until),
            by: if is_asked(reason) { "ca" } else { "holdfast" }.to_owned(),
        }
    });
    by_hand.chain(asked).collect()
}

/// What the CA wants left alone while the rest goes on.
fn narrow(wait: &CaWait) -> PauseView {
    PauseView {
        scope: wait.scope.as_str(),
        key: Some(wait.key.clone()),
        cause: "acme-rate-limited".to_owned(),
        detail: wait.reason.clone(),
        since: Some(wait.noted_at),
        until: Some(wait.until),
        by: "ca".to_owned(),
    }
}

impl CaView {
    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }

    pub(crate) const fn is_active(&self) -> bool {
        self.active
    }

    /// One that there is no account at yet.
    pub(crate) fn unknown(name: String, directory: String, limits: OrderLimits) -> Self {
        let limit = LimitView {
            scope: "account",
            class: "new",
            left: limits.per_3h,
            of: limits.per_3h,
            refills_at: None,
        };
        Self {
            name,
            directory,
            active: true,
            healthy: true,
            reason: None,
            paused_until: None,
            pauses: Vec::new(),
            resumed: None,
            account: None,
            limits: vec![limit],
            in_flight: 0,
            queued: QueuedView::default(),
            drains_at: None,
        }
    }

    pub(crate) fn of(name: String, account: &CaAccount, extras: CaExtras) -> Self {
        let (healthy, reason) = health(account);
        let mut pauses = pauses(account);
        let endless = pauses.iter().any(|pause| pause.until.is_none());
        let paused_until = pauses.iter().filter_map(|pause| pause.until).max().filter(|_| !endless);
        pauses.extend(extras.waits.iter().map(narrow));
        let CaExtras { terms, active, .. } = extras;
        let limits = active.iter().map(|(limits, _)| LimitView {
            scope: "account",
            class: "new",
            left: account.orders_left,
            of: limits.per_3h,
            refills_at: account.full_at,
        });
        let drains_at = active.filter(|_| healthy && !endless).and_then(|(limits, queue)| {
            let counted = u64::from(COUNTED);
            let is_counted = (1..counted).contains(&(queue.charged + queue.renewals));
            let room = is_counted.then(|| account.room_for(queue.charged, limits))?;
            Some(paused_until.map_or(room, |until| room.max(until)))
        });
        let queued = active.map(|(_, queue)| QueuedView {
            new: queue.charged,
            renewal: queue.renewals,
            ari: 0,
        });
        Self {
            name,
            directory: account.directory.clone(),
            active: active.is_some(),
            healthy,
            reason,
            paused_until,
            account: Some(CaAccountView {
                url: account.url.clone(),
                terms_agreed_at: terms.as_ref().and_then(|terms| terms.agreed_at),
                terms: terms.map(|terms| terms.url),
            }),
            limits: limits.collect(),
            pauses,
            resumed: account.resumed.clone().map(|(at, by)| ResumeView { at, by }),
            in_flight: account.in_flight,
            queued: queued.unwrap_or_default(),
            drains_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_is_named_by_the_host_of_its_directory() {
        for (directory, name) in [
            ("https://acme.example.org/directory", "acme.example.org"),
            ("https://127.0.0.1:8614/directory", "127.0.0.1"),
            ("https://[::1]:8614/directory", "::1"),
        ] {
            assert_eq!(host(directory), name);
        }
    }
}
