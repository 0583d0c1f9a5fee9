//! `holdfast edge list`

use holdfast_model::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::{
    client::{Api, parsed},
    clock,
    failure::Failure,
    output::{Output, Style, Table},
};

/// An edge, as the API has it.
#[derive(Debug, Deserialize)]
pub(super) struct Edge {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) live: bool,
    pub(super) last_seen_at: Timestamp,
    pub(super) revision: String,
    pub(super) behind: u64,
    pub(super) last_error: Option<Note>,
    pub(super) mode: Option<String>,
    pub(super) target: Option<String>,
    pub(super) version: Option<String>,
    pub(super) strangers: u64,
    pub(super) shadows: u64,
}

/// A cause.
#[derive(Debug, Deserialize)]
pub(super) struct Note {
    pub(super) code: String,
    pub(super) detail: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

pub(super) async fn list(api: &Api, output: Output) -> Result<(), Failure> {
    let items = api.get("/v1/edges").await?;
    let items = items.get("items").and_then(|items| items.as_array()).cloned().unwrap_or_default();
    if output.is_json() {
        output.json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    let now = clock::now();
    let headings =
        ["NAME", "GROUP", "LIVE", "SEEN", "REVISION", "BEHIND", "MODE", "STRANGERS", "COMPLAINT"];
    let mut table = Table::new(headings).painted("LIVE", liveness).painted("COMPLAINT", Style::dim);
    for edge in items.iter().map(parsed::<Edge>) {
        let edge = edge?;
        let strangers = strangers(&edge);
        table.row([
            edge.name,
            edge.group,
            if edge.live { "yes" } else { "no" }.to_owned(),
            clock::relative(edge.last_seen_at, now),
            edge.revision,
            edge.behind.to_string(),
            edge.mode.unwrap_or_default(),
            strangers,
            edge.last_error.map(|note| note.to_string()).unwrap_or_default(),
        ]);
    }
    output.table(&table);
    Ok(())
}

/// How many files there are none of ours, and how many of those stand before ours.
pub(super) fn strangers(edge: &Edge) -> String {
    match (edge.strangers, edge.shadows) {
        (strangers, 0) => strangers.to_string(),
        (strangers, shadows) => format!("{strangers}, {shadows} shadowing"),
    }
}

fn liveness(style: Style, text: &str) -> String {
    if text == "yes" { style.good(text) } else { style.bad(text) }
}
