//! `holdfast edge remove`

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use serde::Deserialize;

use super::list::Edge;
use crate::{
    client::{Api, escaped, parsed},
    clock,
    failure::Failure,
    output::Output,
};

/// Forget an edge that is gone for good.
#[derive(Debug, clap::Args)]
pub(super) struct Remove {
    /// The edge's name
    edge: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Deserialize)]
struct Removed {
    group: String,
    tokens: Vec<String>,
}

impl Remove {
    pub(super) async fn run(&self, api: &Api, output: Output) -> Result<(), Failure> {
        let path = format!("/v1/edges/{}", escaped(&self.edge));
        if !self.yes {
            let edge: Edge = parsed(&api.get(&path).await?)?;
            confirm(&edge)?;
        }
        let answer = api.delete(&path).await?;
        if output.is_json() {
            output.json(&answer);
            return Ok(());
        }
        let Removed { group, tokens } = parsed(&answer)?;
        let ended = match tokens.len() {
            0 => "It had no token.".to_owned(),
            1 => "Its token works no more.".to_owned(),
            many => format!("Its {many} tokens work no more."),
        };
        let (good, edge) = (output.style().good("✓"), &self.edge);
        output.line(format!("{good} Edge {edge} of group {group} is forgotten. {ended}"));
        Ok(())
    }
}

/// Asks at a terminal; elsewhere nobody could answer.
fn confirm(edge: &Edge) -> Result<(), Failure> {
    let name = &edge.name;
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "Edge {name} would be forgotten and its tokens ended; say so with --yes."
        )));
    }
    let (seen, state) = (clock::relative(edge.last_seen_at, clock::now()), edge.liveness());
    eprintln!("Edge {name} of group {} was seen {seen} and is {state}.", edge.group);
    eprint!("Forget it and end its tokens? [y/N] ");
    std::io::stderr().flush().ok();
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).ok();
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::failed(format!("Edge {name} stays."))),
    }
}
