//! `holdfast edge show`

use serde::Deserialize;

use super::list::{Edge, Note, strangers};
use crate::{
    client::{Api, escaped, parsed},
    clock,
    failure::Failure,
    output::{Output, Style, Table},
};

#[derive(Debug, Deserialize)]
struct Detail {
    #[serde(flatten)]
    edge: Edge,
    refused: Vec<Refusal>,
    stranger_files: Vec<Stranger>,
    /// Replicas of the release before do not say.
    #[serde(default)]
    unknown_names: Names,
    #[serde(default)]
    absent_names: Names,
}

#[derive(Debug, Default, Deserialize)]
struct Names {
    count: u64,
    names: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Refusal {
    name: String,
    error: Note,
}

#[derive(Debug, Deserialize)]
struct Stranger {
    file: String,
    names: Vec<String>,
    shadows: bool,
    /// Replicas of the release before do not say.
    #[serde(default)]
    adoption: Option<Adoption>,
}

#[derive(Debug, Deserialize)]
struct Adoption {
    error: Option<Note>,
}

pub(super) async fn show(api: &Api, output: Output, edge: &str) -> Result<(), Failure> {
    let answer = api.get(&format!("/v1/edges/{}", escaped(edge))).await?;
    if output.is_json() {
        output.json(&answer);
        return Ok(());
    }
    let detail: Detail = parsed(&answer)?;
    facts(output, &detail.edge);
    if !detail.refused.is_empty() {
        output.line("");
        let mut table = Table::new(["NOT AS DESIRED", "WHY"]).painted("WHY", Style::dim);
        for refusal in detail.refused {
            table.row([refusal.name, refusal.error.to_string()]);
        }
        output.table(&table);
    }
    different(
        output,
        "UNKNOWN SINCE THE RESTORE",
        &detail.unknown_names,
        "They are served on. Add each again with `holdfast domain add NAME`; to stop serving one, remove its line from the file `kept` in the agent's data directory and restart the agent.",
    );
    different(
        output,
        "NOT SERVED BEFORE THE RESTORE",
        &detail.absent_names,
        "They may have been removed after the backup was made: then remove them again with `holdfast domain remove NAME`.",
    );
    if !detail.stranger_files.is_empty() {
        output.line("");
        let mut table = Table::new(["NONE OF OURS", "SHADOWS", "NAMES"]).painted("SHADOWS", shadow);
        for Stranger { file, names, shadows, .. } in &detail.stranger_files {
            let shadows = if *shadows { "yes" } else { "no" };
            table.row([file.clone(), shadows.to_owned(), names.join(" ")]);
        }
        output.table(&table);
        adoptions(output, &detail.stranger_files);
        // What was refused is refused again, until something is done about it.
        let is_open = |one: &Stranger| one.shadows && one.adoption.is_none();
        if detail.stranger_files.iter().any(is_open) {
            let hint = format!("Take them over with: holdfast edge adopt {edge} --all");
            output.line(output.style().dim(&hint));
        }
    }
    Ok(())
}

/// Names on which the edge and a restored database did not agree, and what to do about them.
fn different(output: Output, title: &'static str, names: &Names, advice: &str) {
    if names.count == 0 {
        return;
    }
    output.line("");
    let mut table = Table::new([title]);
    for name in &names.names {
        table.row([name.clone()]);
    }
    output.table(&table);
    let shown = u64::try_from(names.names.len()).unwrap_or(u64::MAX);
    if names.count > shown {
        output.line(format!("and {} more", names.count - shown));
    }
    output.line(output.style().dim(advice));
}

/// Those that the edge was asked to take over and did not, or not yet.
fn adoptions(output: Output, strangers: &[Stranger]) {
    let asked = strangers.iter().filter_map(|one| Some((&one.file, one.adoption.as_ref()?)));
    let mut asked = asked.peekable();
    if asked.peek().is_none() {
        return;
    }
    let mut table = Table::new(["NOT TAKEN OVER", "WHY"]).painted("WHY", Style::dim);
    for (file, Adoption { error }) in asked {
        let why = error.as_ref().map_or_else(|| "the edge is asked".to_owned(), Note::to_string);
        table.row([file.clone(), why]);
    }
    output.line("");
    output.table(&table);
}

fn facts(output: Output, edge: &Edge) {
    let seen = clock::relative(edge.last_seen_at, clock::now());
    let agent = [edge.target.as_deref(), edge.version.as_deref(), edge.mode.as_deref()];
    let agent: Vec<_> = agent.into_iter().flatten().collect();
    let lines = [
        ("edge", edge.name.clone()),
        ("group", edge.group.clone()),
        ("seen", format!("{seen}, {}", edge.liveness())),
        ("revision", format!("{}, {} behind", edge.revision, edge.behind())),
        ("agent", agent.join(", ")),
        ("strangers", strangers(edge)),
        ("complaint", edge.last_error.as_ref().map(ToString::to_string).unwrap_or_default()),
    ];
    for (name, value) in lines.into_iter().filter(|(_, value)| !value.is_empty()) {
        output.line(format!("{} {value}", output.style().dim(&format!("{name:<10}"))));
    }
}

fn shadow(style: Style, text: &str) -> String {
    if text == "yes" { style.bad(text) } else { text.to_owned() }
}
