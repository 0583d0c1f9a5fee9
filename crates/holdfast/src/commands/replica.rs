//! `holdfast replica list` and `holdfast task list`: who is there, and what one of them does for all.

use clap::Subcommand;
use holdfast_model::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::{
    client::{Api, ClientArgs, parsed},
    clock,
    environment::Environment,
    failure::Failure,
    output::{Output, Style, Table},
};

/// Replicas.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplicaArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: ReplicaVerb,
}

#[derive(Debug, Subcommand)]
enum ReplicaVerb {
    /// List the replicas, oldest first: which live, which one leads
    List,
}

/// Tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: TaskVerb,
}

#[derive(Debug, Subcommand)]
enum TaskVerb {
    /// List the work that one replica does for all: who did it last, and what came of it
    List,
}

#[derive(Debug, Deserialize)]
struct Replica {
    instance_id: String,
    url: String,
    role: String,
    registered_at: Timestamp,
    last_heartbeat_at: Timestamp,
    healthy: bool,
    draining: bool,
    leader: bool,
}

#[derive(Debug, Deserialize)]
struct Task {
    name: String,
    lease: String,
    instance_id: String,
    last_run_at: Timestamp,
    ok: bool,
    outcome: String,
    next_at: Timestamp,
}

/// Lists replicas.
pub(crate) async fn run(args: ReplicaArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let ReplicaVerb::List = args.verb;
    let items = Api::find(&args.client)?.list("/v1/replicas").await?;
    if output.is_json() {
        output.json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    let now = clock::now();
    let mut table = Table::new(["INSTANCE", "ROLE", "STATUS", "LEADS", "HEARD", "KNOWN", "URL"])
        .painted("STATUS", status);
    for replica in items.iter().map(parsed::<Replica>) {
        let replica = replica?;
        let status = match (replica.healthy, replica.draining) {
            (false, _) => "stale",
            (true, true) => "ending",
            (true, false) => "healthy",
        };
        table.row([
            replica.instance_id,
            replica.role,
            status.to_owned(),
            if replica.leader { "yes" } else { "" }.to_owned(),
            clock::relative(replica.last_heartbeat_at, now),
            clock::relative(replica.registered_at, now),
            replica.url,
        ]);
    }
    output.table(&table);
    Ok(())
}

fn status(style: Style, text: &str) -> String {
    match text {
        "healthy" => style.good(text),
        "ending" => style.warn(text),
        _ => style.bad(text),
    }
}

/// Lists tasks.
pub(crate) async fn tasks(args: TaskArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let TaskVerb::List = args.verb;
    let items = Api::find(&args.client)?.list("/v1/tasks").await?;
    if output.is_json() {
        output.json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    let now = clock::now();
    let mut table =
        Table::new(["TASK", "LEASE", "BY", "RAN", "NEXT", "OK", "OUTCOME"]).painted("OK", good);
    for task in items.iter().map(parsed::<Task>) {
        let task = task?;
        table.row([
            task.name,
            task.lease,
            task.instance_id,
            clock::relative(task.last_run_at, now),
            clock::relative(task.next_at, now),
            if task.ok { "yes" } else { "no" }.to_owned(),
            task.outcome,
        ]);
    }
    output.table(&table);
    Ok(())
}

fn good(style: Style, text: &str) -> String {
    if text == "yes" { style.good(text) } else { style.bad(text) }
}
