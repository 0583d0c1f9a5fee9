//! `holdfast edge list`

use holdfast_model::Timestamp;
use holdfast_store::{COUNTED, PROXY_DOWN};
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
    #[serde(default)]
    pub(super) refusals: u64,
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
    let edges = items.iter().map(parsed::<Edge>).collect::<Result<Vec<_>, _>>()?;
    output.table(&table(edges, clock::now()));
    Ok(())
}

/// Few columns: the last holds whatever is worth a word, and gives way first where the terminal is narrow.
fn table(edges: Vec<Edge>, now: Timestamp) -> Table {
    let headings = ["NAME", "GROUP", "LIVE", "SEEN", "REVISION", "BEHIND", "LAST ERROR"];
    let mut table =
        Table::new(headings).painted("LIVE", liveness).painted("LAST ERROR", Style::dim);
    for edge in edges {
        let (remarks, behind, state) = (edge.remarks(), edge.behind(), edge.state());
        table.row([
            edge.name,
            edge.group,
            state.to_owned(),
            clock::relative(edge.last_seen_at, now),
            edge.revision,
            behind,
            remarks,
        ]);
    }
    table
}

impl Edge {
    /// What it last complained of; then whatever else is not as at every edge.
    fn remarks(&self) -> String {
        let some = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let observes = self.mode.as_deref() == Some("observe");
        let remarks = [
            self.last_error.as_ref().map(ToString::to_string),
            some(self.refusals, "refused"),
            (self.strangers > 0).then(|| format!("strangers: {}", strangers(self))),
            observes.then(|| "observes only".to_owned()),
        ];
        remarks.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// How far it is behind, which is counted up to a bound.
    pub(super) fn behind(&self) -> String {
        let more = if self.behind < u64::from(COUNTED) { "" } else { "+" };
        format!("{}{more}", self.behind)
    }

    pub(super) fn liveness(&self) -> &'static str {
        match self.state() {
            "yes" => "live",
            "down" => "live, but its proxy does not answer",
            _ => "not live",
        }
    }

    /// `down`: it reports, and its proxy does not answer.
    fn state(&self) -> &'static str {
        let is_down = self.last_error.as_ref().is_some_and(|note| note.code == PROXY_DOWN);
        match (self.live, is_down) {
            (true, true) => "down",
            (true, false) => "yes",
            (false, _) => "no",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(name: &str, live: bool, error: Option<&str>) -> Edge {
        let note = |detail: &str| Note { code: "edge-disk".into(), detail: detail.into() };
        Edge {
            name: name.into(),
            group: "default".into(),
            live,
            last_seen_at: Timestamp::from_seconds(1_700_000_000),
            revision: "1.1234567".into(),
            behind: 10_000,
            last_error: error.map(note),
            mode: Some("observe".into()),
            target: None,
            version: None,
            refusals: 12,
            strangers: 2_000,
            shadows: 7,
        }
    }

    fn lines(width: Option<usize>) -> Vec<String> {
        let edges = vec![
            edge("fra-1", true, None),
            edge("edge-07.eu-central.example.net", false, Some("No space left on device")),
            edge(&"x".repeat(63), true, Some(&"very long words ".repeat(40))),
        ];
        let now = Timestamp::from_seconds(1_700_000_007);
        table(edges, now).lines(width, Style::Plain)
    }

    #[test]
    fn it_fits_the_terminals_there_are() {
        for width in [80, 120, 200] {
            for line in lines(Some(width)) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        // What one looks for is whole at 80 columns: seen when, which revision, how far behind.
        for line in lines(Some(80)).iter().skip(1) {
            assert!(line.contains("7.0 s ago") && line.contains("1.1234567"), "{line}");
            assert!(line.contains("10000+"), "{line}");
        }
    }

    #[test]
    fn an_edge_whose_proxy_answers_nobody_is_down() {
        let mut edge = edge("fra-1", true, Some("the proxy does not answer visitors"));
        assert_eq!(edge.state(), "yes");
        edge.last_error.as_mut().unwrap().code = PROXY_DOWN.into();
        assert_eq!(
            (edge.state(), edge.liveness()),
            ("down", "live, but its proxy does not answer")
        );
        edge.live = false;
        assert_eq!(edge.state(), "no");
    }

    #[test]
    fn everything_stands_somewhere() {
        let text = lines(None).join("\n");
        for word in [
            "edge-disk: No space left on device",
            "12 refused",
            "strangers: 2000, 7 shadowing",
            "observes only",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}
