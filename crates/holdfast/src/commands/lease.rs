//! `holdfast lease …`: who holds what, what happened before, and taking one away.

use clap::Subcommand;
use holdfast_model::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    client::{Api, ClientArgs, escaped, parsed},
    clock,
    environment::Environment,
    failure::Failure,
    output::{Output, Style, Table},
};

/// Leases.
#[derive(Debug, clap::Args)]
pub(crate) struct LeaseArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the leases: who holds which, since when, in which term
    List,
    /// Show the changes of owner of a lease, newest first
    History {
        /// The lease
        name: String,
    },
    /// Take a lease away from whoever holds it; its term rises, so that writes under way are refused
    Release {
        /// The lease
        name: String,
    },
    /// Ask the holder to let go of a lease in good order
    StepDown {
        /// The lease
        name: String,
        /// The replica that is to have it next; any where none is given
        #[arg(long, value_name = "INSTANCE")]
        to: Option<String>,
    },
}

#[derive(Debug, Deserialize)]
struct Lease {
    name: String,
    holder: Option<String>,
    term: u64,
    since: Timestamp,
    expires_at: Timestamp,
    held: bool,
    successor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Change {
    at: Timestamp,
    change: String,
    term: u64,
    from: Option<String>,
    to: Option<String>,
    note: Option<String>,
}

/// Does it.
pub(crate) async fn run(args: LeaseArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let api = Api::find(&args.client)?;
    match args.verb {
        Verb::List => list(&api, output).await,
        Verb::History { name } => history(&api, output, &name).await,
        Verb::Release { name } => release(&api, output, &name).await,
        Verb::StepDown { name, to } => step_down(&api, output, &name, to.as_deref()).await,
    }
}

async fn list(api: &Api, output: Output) -> Result<(), Failure> {
    let items = api.list("/v1/leases").await?;
    if output.is_json() {
        output.json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    let now = clock::now();
    let mut table =
        Table::new(["NAME", "HOLDER", "TERM", "SINCE", "ENDS", "NEXT"]).painted("HOLDER", holding);
    for lease in items.iter().map(parsed::<Lease>) {
        let lease = lease?;
        table.row([
            lease.name,
            lease.holder.filter(|_| lease.held).unwrap_or_else(|| NOBODY.to_owned()),
            lease.term.to_string(),
            clock::relative(lease.since, now),
            clock::relative(lease.expires_at, now),
            lease.successor.unwrap_or_default(),
        ]);
    }
    output.table(&table);
    Ok(())
}

const NOBODY: &str = "nobody";

fn holding(style: Style, text: &str) -> String {
    if text == NOBODY { style.dim(text) } else { style.good(text) }
}

async fn history(api: &Api, output: Output, name: &str) -> Result<(), Failure> {
    let items = api.list(&format!("/v1/leases/{}/history", escaped(name))).await?;
    if output.is_json() {
        output.json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    let mut table =
        Table::new(["AT", "TERM", "CHANGE", "FROM", "TO", "NOTE"]).painted("NOTE", Style::dim);
    for change in items.iter().map(parsed::<Change>) {
        let change = change?;
        table.row([
            change.at.to_string(),
            change.term.to_string(),
            change.change,
            change.from.unwrap_or_default(),
            change.to.unwrap_or_default(),
            change.note.unwrap_or_default(),
        ]);
    }
    output.table(&table);
    Ok(())
}

async fn release(api: &Api, output: Output, name: &str) -> Result<(), Failure> {
    let answer = api.post(&format!("/v1/leases/{}/release", escaped(name)), None).await?;
    if output.is_json() {
        output.json(&answer);
        return Ok(());
    }
    let term = answer.get("term").and_then(Value::as_u64).unwrap_or_default();
    output.line(format!("{name} was taken away; its term is {term} now."));
    Ok(())
}

async fn step_down(api: &Api, output: Output, name: &str, to: Option<&str>) -> Result<(), Failure> {
    let path = format!("/v1/leases/{}/step-down", escaped(name));
    api.post(&path, Some(&json!({ "to": to }))).await?;
    if output.is_json() {
        output.json(&json!({ "name": name, "to": to }));
        return Ok(());
    }
    let favour = to.map_or_else(String::new, |to| format!(" in favour of {to}"));
    output.line(format!("The holder of {name} was asked to step down{favour}."));
    Ok(())
}
