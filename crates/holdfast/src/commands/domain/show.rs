//! `holdfast domain show`, `history` and `explain`.

use std::time::Duration;

use holdfast_model::{Explanation, Timestamp};
use serde_json::{Value, json};

use super::{add::records, list::cell};
use crate::{
    client::{Api, parsed, step},
    clock,
    failure::Failure,
    output::{Output, Style, Table},
};

/// Shows one domain.
pub(super) async fn show(api: &Api, output: Output, name: &str) -> Result<(), Failure> {
    let domain = api.get(&format!("/v1/domains/{}", step(name))).await?;
    if output.is_json() {
        output.json(&domain);
        return Ok(());
    }
    let style = output.style();
    let entry = |name: &str, value: String| {
        if !value.is_empty() {
            output.line(format!("{} {value}", style.dim(&format!("{name:<12}"))));
        }
    };
    let at = |path: &str| cell(domain.pointer(path));
    let when = |path: &str| time(domain.pointer(path));
    entry("name", style.bold(&at("/name")));
    entry("state", style.state(&at("/state")));
    entry("changed", when("/updated_at"));
    entry("removing", when("/removing_since"));
    entry("next", when("/next_attempt_at"));
    entry("error", joined(&at("/last_error/code"), &at("/last_error/detail")));
    for record in records(&domain) {
        entry("dns", record);
    }
    entry("certificate", at("/certificate/sha256"));
    entry("issuer", at("/certificate/issuer"));
    entry("directory", at("/certificate/directory"));
    entry("valid until", when("/certificate/not_after"));
    entry("seen served", when("/serving/seen_at"));
    for field in ["tenant", "resource", "target", "edge_group", "id"] {
        entry(field, at(&format!("/{field}")));
    }
    entry("added", when("/created_at"));
    Ok(())
}

fn joined(code: &str, detail: &str) -> String {
    if code.is_empty() { String::new() } else { format!("{code}: {detail}") }
}

/// A time and how far it is.
fn time(value: Option<&Value>) -> String {
    let at = value.and_then(Value::as_str).and_then(|text| Timestamp::parse(text).ok());
    at.map_or_else(String::new, |at| format!("{at} ({})", clock::relative(at, clock::now())))
}

/// Shows what a domain went through.
pub(super) async fn history(api: &Api, output: Output, name: &str) -> Result<(), Failure> {
    let items = api.list(&format!("/v1/domains/{}/history", step(name))).await?;
    if output.is_json() {
        output.json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    let mut table = Table::new(["AT", "FROM", "TO", "TOOK", "TRY", "BY", "CAUSE"])
        .painted("FROM", Style::dim)
        .painted("TO", Style::state)
        .painted("BY", Style::dim);
    for step in &items {
        let at = |path: &str| cell(step.pointer(path));
        let took = step.pointer("/duration_ms").and_then(Value::as_u64).map(Duration::from_millis);
        table.row([
            at("/at"),
            at("/from"),
            at("/to"),
            took.map(clock::span).unwrap_or_default(),
            at("/attempt"),
            at("/actor"),
            joined(&at("/error/code"), &at("/error/detail")),
        ]);
    }
    output.table(&table);
    Ok(())
}

/// Says why a domain is where it is.
pub(super) async fn explain(api: &Api, output: Output, name: &str) -> Result<(), Failure> {
    let answer = api.get(&format!("/v1/domains/{}/explain", step(name))).await?;
    if output.is_json() {
        output.json(&answer);
        return Ok(());
    }
    let explanation: Explanation = parsed(&answer)?;
    let style = output.style();
    let entry = |name: &str, value: &str| {
        output.line(format!("  {} {value}", style.dim(&format!("{name:<6}"))));
    };
    output.line(style.bold(&explanation.summary));
    entry("cause", &explanation.cause);
    entry("fix", &explanation.fix);
    entry("who", &cell(answer.get("who")));
    if explanation.next_attempt_at.is_some() {
        entry("next", &time(answer.get("next_attempt_at")));
    }
    for check in &explanation.checks {
        let symbol = if check.ok { style.good("✓") } else { style.bad("✗") };
        output.line(format!(
            "  {symbol} {}: expected {}; seen {}",
            check.name, check.expected, check.seen
        ));
    }
    Ok(())
}
