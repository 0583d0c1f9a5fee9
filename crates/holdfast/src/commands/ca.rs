//! `holdfast ca`: the CAs, the account there, and pauses by hand.

mod pin;

use std::{path::PathBuf, time::Duration};

use clap::Subcommand;
use holdfast_model::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    client::{Api, ClientArgs, escaped, parsed},
    clock,
    config::Config,
    environment::Environment,
    failure::Failure,
    output::{Output, Style, Table},
};

/// CAs and the account there.
#[derive(Debug, clap::Args)]
pub(crate) struct CaArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the CAs: budget, queue, pauses
    List,
    /// Show a CA: the account there, what may be ordered, and what keeps it from ordering
    Show {
        /// The CA, as `holdfast ca list` names it
        name: String,
    },
    /// Order nothing at a CA until it is resumed; orders that are open go on
    Pause {
        /// The CA, as `holdfast ca list` names it
        name: String,
        /// For this long, for example 30s, 15m, 1h or 2d
        #[arg(long = "for", value_name = "TIME", value_parser = time)]
        time: Option<Duration>,
    },
    /// Order again: lift the pause set by hand and what the CA asked of the account. What it asked of single names stays:
    /// `holdfast domain retry NAME`
    Resume {
        /// The CA, as `holdfast ca list` names it
        name: String,
    },
    /// Make another account, in place of one that the CA does not accept any more
    Register,
    /// Forget which issuer the CA's first chain led to: the next chain decides again
    Unpin {
        /// Work straight on the database of this configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

/// A whole number and a unit.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "is no time; write for example 30s, 15m, 1h or 2d".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = text.strip_suffix(unit).unwrap_or_default().parse().map_err(|_| wrong())?;
    let seconds = count.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

#[derive(Debug, Deserialize)]
struct Ca {
    name: String,
    directory: String,
    active: bool,
    healthy: bool,
    reason: Option<String>,
    pauses: Vec<Pause>,
    #[serde(default)]
    resumed: Option<Resumed>,
    account: Option<Account>,
    limits: Vec<Limit>,
    in_flight: u64,
    queued: Queued,
    drains_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct Account {
    url: Option<String>,
    terms: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Pause {
    scope: String,
    #[serde(default)]
    key: Option<String>,
    cause: String,
    detail: String,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    by: String,
}

#[derive(Debug, Deserialize)]
struct Resumed {
    at: Timestamp,
    by: String,
}

#[derive(Debug, Deserialize)]
struct Limit {
    scope: String,
    class: String,
    left: u64,
    of: u64,
    refills_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct Queued {
    new: u64,
    renewal: u64,
}

/// Does it.
pub(crate) async fn run(args: CaArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    if let Verb::Unpin { config } = &args.verb {
        return pin::unpin(&Config::load(config, environment)?, output).await;
    }
    let api = Api::find(&args.client)?;
    match args.verb {
        Verb::Unpin { .. } => Ok(()),
        Verb::List => list(&api, output).await,
        Verb::Show { name } => {
            let answer = api.get(&path(&name, "")).await?;
            shown(&answer, output)
        }
        Verb::Pause { name, time } => {
            let request =
                time.map_or_else(|| json!({}), |time| json!({ "seconds": time.as_secs() }));
            let answer = api.post(&path(&name, "/pause"), Some(&request)).await?;
            shown(&answer, output)
        }
        Verb::Resume { name } => {
            let answer = api.post(&path(&name, "/resume"), None).await?;
            shown(&answer, output)
        }
        Verb::Register => register(&api, output).await,
    }
}

fn path(name: &str, rest: &str) -> String {
    format!("/v1/cas/{}{rest}", escaped(name))
}

async fn list(api: &Api, output: Output) -> Result<(), Failure> {
    let items = api.list("/v1/cas").await?;
    if output.is_json() {
        output.json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    let now = clock::now();
    let headings = ["NAME", "USED", "HEALTH", "BUDGET", "NEW", "RENEWALS", "OPEN", "PAUSED"];
    let mut table = Table::new(headings).painted("HEALTH", health);
    for ca in items.iter().map(parsed::<Ca>) {
        let ca = ca?;
        let budget = ca.limits.first().map(|limit| format!("{}/{}", limit.left, limit.of));
        table.row([
            ca.name,
            if ca.active { "yes" } else { "no" }.to_owned(),
            if ca.healthy { HEALTHY } else { "fails" }.to_owned(),
            budget.unwrap_or_default(),
            ca.queued.new.to_string(),
            ca.queued.renewal.to_string(),
            ca.in_flight.to_string(),
            paused(&ca.pauses, now),
        ]);
    }
    output.table(&table);
    Ok(())
}

/// Those of the account; of names that wait, how many.
fn paused(pauses: &[Pause], now: Timestamp) -> String {
    let (narrow, whole): (Vec<_>, Vec<_>) = pauses.iter().partition(|pause| pause.key.is_some());
    let mut told: Vec<_> = whole.into_iter().map(|pause| pause.brief(now)).collect();
    if !narrow.is_empty() {
        told.push(format!("{} names or domains", narrow.len()));
    }
    told.join(", ")
}

const HEALTHY: &str = "ok";

fn health(style: Style, text: &str) -> String {
    if text == HEALTHY { style.good(text) } else { style.bad(text) }
}

impl Pause {
    fn brief(&self, now: Timestamp) -> String {
        let ends = self
            .until
            .map_or_else(String::new, |at| format!(", ends {}", clock::relative(at, now)));
        format!("by {}{ends}", self.by)
    }

    fn told(&self, now: Timestamp) -> String {
        let Self { scope, cause, detail, by, .. } = self;
        let since = self.since.map_or_else(String::new, |at| format!(" since {at}"));
        let ends = match self.until {
            Some(at) => format!("ends {}", clock::relative(at, now)),
            None => "until it is resumed".to_owned(),
        };
        let key = self.key.as_ref().map_or_else(String::new, |key| format!(" {key}"));
        format!("{scope}{key} by {by}{since}, {ends}: {cause} ({detail})")
    }
}

fn shown(answer: &Value, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json(answer);
        return Ok(());
    }
    let (ca, now) = (parsed::<Ca>(answer)?, clock::now());
    let mut table = Table::new(["CA", "STATE"]);
    let mut row = |what: &str, text: String| table.row([what.to_owned(), text]);
    row("name", ca.name);
    row("directory", ca.directory);
    row("used", if ca.active { "yes, new orders are made here" } else { "no" }.to_owned());
    row("health", ca.reason.unwrap_or_else(|| HEALTHY.to_owned()));
    if let Some(account) = ca.account {
        row("account", account.url.unwrap_or_else(|| "not registered yet".to_owned()));
        row("terms", account.terms.unwrap_or_default());
    }
    for limit in ca.limits {
        let Limit { scope, class, left, of, .. } = limit;
        let full = limit
            .refills_at
            .map_or_else(String::new, |at| format!(", full {}", clock::relative(at, now)));
        row("budget", format!("{left} of {of} {class} orders ({scope}){full}"));
    }
    let drains = ca.drains_at.map_or_else(String::new, |at| match at <= now {
        true => ", the budget has room for all".to_owned(),
        false => format!(", given out {}", clock::relative(at, now)),
    });
    row("queue", format!("{} new, {} renewals{drains}", ca.queued.new, ca.queued.renewal));
    row("open", format!("{} orders", ca.in_flight));
    for pause in ca.pauses {
        row("paused", pause.told(now));
    }
    if let Some(Resumed { at, by }) = ca.resumed {
        row("resumed", format!("{} by {by}", clock::relative(at, now)));
    }
    output.table(&table);
    Ok(())
}

async fn register(api: &Api, output: Output) -> Result<(), Failure> {
    let answer = api.post("/v1/keys:register-account", None).await?;
    if output.is_json() {
        output.json(&answer);
        return Ok(());
    }
    let directory = answer.get("directory").and_then(Value::as_str).unwrap_or_default();
    output.line(format!(
        "{} There is a new account at {directory}; orders go on by themselves.",
        output.style().good("✓")
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("1h"), Ok(Duration::from_secs(3_600)));
        assert_eq!(time("2d"), Ok(Duration::from_secs(172_800)));
        for wrong in ["", "h", "1", "0s", "-1h", "1h30", "1hh", "99999999999999999999d"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
