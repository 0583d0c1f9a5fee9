//! Metrics: documented all, and all that are documented there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use axum::body::Body;
use holdfast_engine::Pulse;
use holdfast_model::Outcome;
use holdfast_server::Metrics;
use holdfast_store::NewEdge;
use http::Request;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::kit::Kit;
use crate::work::account;

/// The names in the table of docs/metrics.md.
fn documented() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `holdfast_"));
    rows.map(|row| format!("holdfast_{}", row.split(['`', '{']).next().unwrap())).collect()
}

/// The names that the sources record, in whichever crate of the server.
fn recorded() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = BTreeSet::new();
    let mut paths: Vec<_> = fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|path| path.is_dir())
        .collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(names_in(&fs::read_to_string(path).unwrap()));
        }
    }
    names
}

fn names_in(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for macro_name in ["counter!(", "gauge!(", "histogram!("] {
        for call in source.split(macro_name).skip(1) {
            let name = call.trim_start().strip_prefix('"').and_then(|name| name.split('"').next());
            names.extend(name.filter(|name| name.starts_with("holdfast_")).map(ToOwned::to_owned));
        }
    }
    names
}

/// The names of an answer, each told what it is.
fn shown(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// The names of an answer that are explained.
fn explained(text: &str) -> BTreeSet<String> {
    let help = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
    let help = help.filter_map(|line| line.split_once(' ').filter(|(_, help)| !help.is_empty()));
    help.map(|(name, _)| name.to_owned()).collect()
}

async fn scrape(kit: &Kit) -> String {
    kit.send(Request::get("/metrics").body(Body::empty()).unwrap()).await.text()
}

#[tokio::test]
async fn every_metric_is_documented_and_every_documented_one_exists() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let kit = Kit::with(|settings| {
        settings.metrics = Metrics::of(handle);
        settings.pulse = Some(Pulse::default());
    })
    .await;
    // Something of everything.
    account(&kit).await;
    kit.store
        .register_edge(&NewEdge { name: "fra-\"1".into(), group: "default".into() })
        .await
        .unwrap();
    crate::bundle::imported(&kit, "b.example.com", &crate::bundle::import("b.example.com")).await;
    kit.work(Outcome::Imported, Default::default()).await;
    let text = scrape(&kit).await;
    let shown = shown(&text);
    let documented = documented();
    let undocumented: Vec<_> =
        shown.union(&recorded()).filter(|name| !documented.contains(*name)).cloned().collect();
    assert!(undocumented.is_empty(), "not in docs/metrics.md: {undocumented:?}");
    let known: BTreeSet<_> = shown.union(&recorded()).cloned().collect();
    let missing: Vec<_> = documented.difference(&known).collect();
    assert!(missing.is_empty(), "in docs/metrics.md and nowhere else: {missing:?}");
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    assert!(samples.clone().all(|line| line.starts_with("holdfast_")), "{text}");
    assert!(text.contains("holdfast_edge_live{edge=\"fra-\\\"1\"} 1\n"), "{text}");
}

/// As a process in which everything has happened would show it.
#[tokio::test]
async fn every_metric_says_what_it_is() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    Metrics::describe();
    for name in recorded() {
        match () {
            () if name.ends_with("_total") => metrics::counter!(name).increment(1),
            () if name.ends_with("_seconds") => metrics::histogram!(name).record(1.0),
            () => metrics::gauge!(name).set(1.0),
        }
    }
    let kit = Kit::with(|settings| settings.metrics = Metrics::of(handle)).await;
    let text = scrape(&kit).await;
    let (shown, explained) = (shown(&text), explained(&text));
    assert!(recorded().is_subset(&shown), "{text}");
    let silent: Vec<_> = shown.difference(&explained).collect();
    assert!(silent.is_empty(), "without a word in metrics/description.rs: {silent:?}");
}

#[tokio::test]
async fn what_waits_and_what_ends_is_shown() {
    let kit = Kit::new().await;
    kit.add("a.example.com").await;
    account(&kit).await;
    let text = scrape(&kit).await;
    for line in [
        "holdfast_due_domains 1",
        "holdfast_queue_domains 0",
        "holdfast_domains_stuck{state=\"Initial\"} 0",
        "holdfast_account_budget 300",
        "holdfast_account_paused_seconds 0",
        "holdfast_account_unusable 0",
        "holdfast_certificates_expiring{within=\"7d\"} 0",
        "holdfast_leader 1",
        "holdfast_store_up 1",
        "holdfast_webhook_pending 0",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}\n{text}");
    }
    assert!(!text.contains("holdfast_certificate_expiry_seconds"), "there is none that could end");
}

#[tokio::test]
async fn scrapes_in_a_row_ask_the_store_once() {
    let kit = Kit::new().await;
    assert!(scrape(&kit).await.contains("holdfast_due_domains 0\n"));
    kit.add("a.example.com").await;
    assert!(scrape(&kit).await.contains("holdfast_due_domains 0\n"), "as of a moment ago");
}
