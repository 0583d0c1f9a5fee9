//! `holdfast domain list`

use holdfast_model::{State, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    client::{Api, escaped, parsed},
    clock,
    failure::Failure,
    output::{Output, Style, Table},
};

/// List domains.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// Only in this state
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Only of this tenant
    #[arg(long, value_name = "T")]
    tenant: Option<String>,
    /// Only names that begin so
    #[arg(long, short, value_name = "PREFIX")]
    q: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    state: String,
    tenant: Option<String>,
    next_attempt_at: Option<Timestamp>,
    last_error: Option<Note>,
    certificate: Option<Certificate>,
    removing_since: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct Note {
    code: String,
    detail: String,
}

#[derive(Debug, Deserialize)]
struct Certificate {
    not_after: Timestamp,
}

impl List {
    pub(super) async fn run(&self, api: &Api, output: Output) -> Result<(), Failure> {
        let items = api.list(&self.path()).await?;
        if output.is_json() {
            output.json(&json!({ "items": items, "next_cursor": null }));
            return Ok(());
        }
        let now = clock::now();
        let mut table = Table::new(["NAME", "STATE", "CERTIFICATE", "NEXT", "TENANT", "CAUSE"])
            .painted("STATE", Style::state)
            .painted("CAUSE", Style::dim);
        for row in items.iter().map(parsed::<Row>) {
            table.row(row?.cells(now));
        }
        output.table(&table);
        Ok(())
    }

    fn path(&self) -> String {
        let state = self.state.map(State::as_str);
        let (tenant, q) = (self.tenant.as_deref(), self.q.as_deref());
        let filters = [("state", state), ("tenant", tenant), ("q", q)];
        let query = filters
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| format!("{name}={}", escaped(value))));
        let query = query.collect::<Vec<_>>().join("&");
        if query.is_empty() { "/v1/domains".to_owned() } else { format!("/v1/domains?{query}") }
    }
}

impl Row {
    fn cells(self, now: Timestamp) -> [String; 6] {
        let state = match self.removing_since {
            Some(_) => format!("{} (removing)", self.state),
            None => self.state,
        };
        let until = self.certificate.map(|certificate| clock::relative(certificate.not_after, now));
        let until = until.map(|until| format!("ends {until}"));
        let next = self.next_attempt_at.map(|at| clock::relative(at, now));
        let cause = self.last_error.map(|note| format!("{}: {}", note.code, note.detail));
        [
            self.name,
            state,
            until.unwrap_or_default(),
            next.unwrap_or_default(),
            self.tenant.unwrap_or_default(),
            cause.unwrap_or_default(),
        ]
    }
}

/// A value as a cell: texts bare, nothing as nothing.
pub(super) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
