//! Levels that are read at the moment of asking. Every one of them is in docs/metrics.md; a test compares.

use std::fmt::Write as _;
use std::time::Duration;

use holdfast_model::{State, Timestamp};
use holdfast_store::Outage;

use crate::database::Trouble;
use crate::vital::{Installation, SPANS};

/// What this process knows of itself.
pub(crate) struct Process {
    pub(crate) leads: bool,
    /// How long ago its engine last looked for work, where it has one.
    pub(crate) last_round: Option<Duration>,
    /// Why the database cannot be used, if it cannot.
    pub(crate) trouble: Option<Trouble>,
    /// How long SQLite's log is.
    pub(crate) log_bytes: u64,
}

/// The text of Prometheus, as it grows.
#[derive(Default)]
struct Text(String);

impl Text {
    /// A gauge and its samples, each with its labels as they are written.
    fn gauge(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (String, f64)>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    fn one(&mut self, name: &str, help: &str, value: f64) {
        self.gauge(name, help, [(String::new(), value)]);
    }
}

/// Everything that is read at the moment of asking; of the installation nothing where the store does not answer.
pub(crate) fn gauges(process: &Process, installation: Option<&Installation>) -> String {
    let mut text = Text::default();
    text.gauge(
        "holdfast_build_info",
        "Always 1; the release is in the label.",
        [(format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), 1.0)],
    );
    text.one("holdfast_leader", "Whether this replica leads.", bit(process.leads));
    if let Some(last) = process.last_round {
        let help = "How long ago this replica's engine last looked for work.";
        text.one("holdfast_engine_round_age_seconds", help, last.as_secs_f64());
    }
    let up = bit(installation.is_some());
    text.one("holdfast_store_up", "Whether the store answered.", up);
    outages(&mut text, process.trouble.as_ref());
    let help = "Length of SQLite's log; 0 with PostgreSQL.";
    text.one("holdfast_store_log_bytes", help, number(process.log_bytes));
    if let Some(installation) = installation {
        domains(&mut text, installation);
        waiting(&mut text, installation);
        expiry(&mut text, installation);
        account(&mut text, installation);
        others(&mut text, installation);
    }
    text.0
}

/// Every cause, also those there are none of.
fn outages(text: &mut Text, trouble: Option<&Trouble>) {
    let known = trouble.map(Trouble::code);
    let every = Outage::ALL.iter().map(|outage| outage.code()).chain([Trouble::OTHER]);
    let every = every.map(|code| (label("cause", code), bit(known == Some(code))));
    text.gauge("holdfast_store_outage", "Whether the database cannot be used, by cause.", every);
}

/// Every state, also those nobody is in: a series that vanishes cannot be alerted on.
fn domains(text: &mut Text, installation: &Installation) {
    let every = State::ALL.iter().map(|state| {
        let count = installation.counts.iter().find(|(of, _)| of == state).map_or(0, |(_, n)| *n);
        (label("state", state.as_str()), number(count))
    });
    text.gauge("holdfast_domains", "Domains per state.", every);
    let watched = State::ALL.iter().filter(|state| crate::alert::watched(**state)).map(|state| {
        let late = installation.stuck.iter().find(|(of, _)| of == state).map_or(0, |(_, n)| *n);
        (label("state", state.as_str()), number(late as u64))
    });
    let help = "Domains that have been in a state for longer than its limit.";
    text.gauge("holdfast_domains_stuck", help, watched);
}

fn waiting(text: &mut Text, installation: &Installation) {
    let vitals = &installation.vitals;
    let now = vitals.now;
    let help = "Domains that are due and in nobody's hands, counted up to 10,000.";
    text.one("holdfast_due_domains", help, number(vitals.due));
    let help = "How long the domain that has been due longest has waited for a worker.";
    text.one("holdfast_due_oldest_seconds", help, age(vitals.next_due_at, now));
    let help = "Domains that wait for an order, counted up to 10,000.";
    text.one("holdfast_queue_domains", help, number(vitals.queued));
    let help = "How long the domain that has waited longest for an order has waited.";
    text.one("holdfast_queue_oldest_seconds", help, age(vitals.queued_since, now));
    text.one("holdfast_orders_open", "Orders open at the CA.", number(vitals.orders));
    let help = "Challenges that can be answered.";
    text.one("holdfast_challenges_open", help, number(vitals.challenges));
}

fn expiry(text: &mut Text, installation: &Installation) {
    let vitals = &installation.vitals;
    if let Some(first) = vitals.first_expiry {
        let help = "How long until the first certificate in use ends; negative when it has ended.";
        let left = first.as_micros().saturating_sub(vitals.now.as_micros());
        text.one("holdfast_certificate_expiry_seconds", help, seconds(left));
    }
    let counted = SPANS.iter().zip(&vitals.expiring);
    let counted = counted.map(|((_, name), count)| (label("within", name), number(*count)));
    let help = "Certificates in use that end within a span, counted up to 10,000.";
    text.gauge("holdfast_certificates_expiring", help, counted);
}

fn account(text: &mut Text, installation: &Installation) {
    let Some(account) = &installation.account else { return };
    let left = account.orders_left.unwrap_or(0);
    let help = "New orders that the account's budget allows now.";
    text.one("holdfast_account_budget", help, f64::from(left));
    let now = installation.vitals.now;
    let is_unusable = account.unusable.is_some();
    let help = "Whether the CA does not accept the account, so that nothing is ordered.";
    text.one("holdfast_account_unusable", help, bit(is_unusable));
    let help = "Whether the CA fails, whatever it is asked for.";
    text.one("holdfast_ca_failing", help, bit(account.failing_since.is_some()));
    let pause = account.paused_until.filter(|_| !is_unusable).map(|until| until.since(now));
    let pause = pause.unwrap_or_default();
    let help = "How long the CA still wants to be left alone.";
    text.one("holdfast_account_paused_seconds", help, pause.as_secs_f64());
}

fn others(text: &mut Text, installation: &Installation) {
    let edge = |name: &str| label("edge", name);
    let live = installation.edges.iter().map(|one| (edge(&one.name), bit(one.live)));
    text.gauge("holdfast_edge_live", "Whether an edge reported lately.", live);
    let behind = installation.edges.iter().map(|one| (edge(&one.name), number(one.behind)));
    text.gauge(
        "holdfast_edge_behind",
        "Deployments that an edge has not applied yet, counted up to 10,000.",
        behind,
    );
    let healthy = installation.replicas.iter().filter(|replica| replica.healthy).count();
    let stale = installation.replicas.len() - healthy;
    let replicas = [("healthy", healthy), ("stale", stale)];
    let replicas = replicas.map(|(name, count)| (label("state", name), number(count as u64)));
    text.gauge(
        "holdfast_replicas",
        "Replicas, by whether they gave a sign of life lately.",
        replicas,
    );
    let help =
        "How long ago the oldest event was committed that readers of the log cannot see yet.";
    let lag = age(installation.lag.unread_since, installation.vitals.now);
    text.one("holdfast_event_log_lag_seconds", help, lag);
    let pending = number(installation.vitals.deliveries);
    let help = "Messages to webhooks that have not arrived, counted up to 10,000.";
    text.one("holdfast_webhook_pending", help, pending);
    let oldest = installation.webhooks.iter().filter_map(|webhook| webhook.open_since).min();
    let help = "How long the oldest message that has not arrived has waited.";
    text.one("holdfast_webhook_oldest_seconds", help, age(oldest, installation.vitals.now));
}

/// A label as it is written; edges are named by people.
fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

fn bit(set: bool) -> f64 {
    if set { 1.0 } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below two to the fifty-third")]
fn number(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a span of time is far below two to the fifty-third"
)]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1_000_000.0
}

/// How long ago; zero for what is to come, and for what is not.
fn age(since: Option<Timestamp>, now: Timestamp) -> f64 {
    since.map(|since| now.since(since)).unwrap_or_default().as_secs_f64()
}
