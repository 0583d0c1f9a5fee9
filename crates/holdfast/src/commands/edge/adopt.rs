//! `holdfast edge adopt`

use clap::ArgGroup;
use serde::Deserialize;
use serde_json::json;

use crate::{
    client::{Api, escaped, parsed},
    failure::Failure,
    output::{Output, Table},
};

/// Have an edge take over files of others.
#[derive(Debug, clap::Args)]
#[command(override_usage = "holdfast edge adopt <EDGE> <NAME|--file <FILE>|--all>")]
#[command(group(ArgGroup::new("which").required(true).args(["name", "file", "all"])))]
pub(super) struct Adopt {
    /// The edge's name
    edge: String,
    /// A name of ours: the files that serve it
    name: Option<String>,
    /// One file, as the proxy knows it
    #[arg(long)]
    file: Option<String>,
    /// Every file that serves a name of ours
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Deserialize)]
struct Asked {
    items: Vec<Adoption>,
}

#[derive(Debug, Deserialize)]
struct Adoption {
    file: String,
    name: String,
}

impl Adopt {
    pub(super) async fn run(&self, api: &Api, output: Output) -> Result<(), Failure> {
        let body = match (&self.name, &self.file) {
            (Some(name), _) => json!({ "name": name }),
            (None, Some(file)) => json!({ "file": file }),
            (None, None) => json!({ "all": true }),
        };
        let path = format!("/v1/edges/{}/adopt", escaped(&self.edge));
        let answer = api.post(&path, Some(&body)).await?;
        if output.is_json() {
            output.json(&answer);
            return Ok(());
        }
        let asked: Asked = parsed(&answer)?;
        let (style, edge) = (output.style(), &self.edge);
        let mut table = Table::new(["FILE", "NAME"]);
        let count = asked.items.len();
        for adoption in asked.items {
            table.row([adoption.file, adoption.name]);
        }
        output.table(&table);
        output.line(format!(
            "{} {edge} is asked to take over {count}; see it with: holdfast edge show {edge}",
            style.good("✓")
        ));
        Ok(())
    }
}
