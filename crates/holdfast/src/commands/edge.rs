//! `holdfast edge list`

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

/// Edges.
#[derive(Debug, clap::Args)]
pub(crate) struct EdgeArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the edges: which live, which are behind, what they complain of
    List,
}

#[derive(Debug, Deserialize)]
struct Edge {
    name: String,
    group: String,
    live: bool,
    last_seen_at: Timestamp,
    behind: u64,
    last_error: Option<Note>,
}

#[derive(Debug, Deserialize)]
struct Note {
    code: String,
    detail: String,
}

/// Does it.
pub(crate) async fn run(args: EdgeArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let api = Api::find(&args.client)?;
    let Verb::List = args.verb;
    let items = api.list("/v1/edges").await?;
    if output.is_json() {
        output.json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    let now = clock::now();
    let mut table = Table::new(["NAME", "GROUP", "LIVE", "SEEN", "BEHIND", "COMPLAINT"])
        .painted("LIVE", liveness)
        .painted("COMPLAINT", Style::dim);
    for edge in items.iter().map(parsed::<Edge>) {
        let edge = edge?;
        let error = edge.last_error.map(|note| format!("{}: {}", note.code, note.detail));
        table.row([
            edge.name,
            edge.group,
            if edge.live { "yes" } else { "no" }.to_owned(),
            clock::relative(edge.last_seen_at, now),
            edge.behind.to_string(),
            error.unwrap_or_default(),
        ]);
    }
    output.table(&table);
    Ok(())
}

fn liveness(style: Style, text: &str) -> String {
    if text == "yes" { style.good(text) } else { style.bad(text) }
}
