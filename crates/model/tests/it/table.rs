//! The table is checked in twice: as a snapshot to review, as a drawing to read. Both come from the code.

use holdfast_model::{Policy, State, TABLE, mermaid};

#[test]
fn the_table_is_the_snapshot() {
    let mut text = String::new();
    for row in TABLE {
        let rule = format!("{:?}", row.rule);
        text += &format!("{:<28} {:<18} {rule}\n", row.from.as_str(), row.on.as_str());
    }
    insta::assert_snapshot!("table", text);
}

#[test]
fn the_limits_are_the_snapshot() {
    let policy = Policy::default();
    let mut text = String::new();
    for &state in State::ALL {
        if let Some(limits) = policy.limits(state) {
            text += &format!("{:<28} {limits:?}\n", state.as_str());
        }
    }
    text += &format!("{:?}\n{:?}\n{:?}\n", policy.outage, policy.ladder, policy.renewal);
    insta::assert_snapshot!("limits", text);
}

#[test]
fn each_line_stands_once() {
    for (at, row) in TABLE.iter().enumerate() {
        let again =
            TABLE.iter().skip(at + 1).any(|other| other.from == row.from && other.on == row.on);
        assert!(!again, "{} on {} stands twice", row.from, row.on.as_str());
    }
}

#[test]
fn every_state_is_reached_and_left() {
    let drawing = mermaid();
    for state in State::ALL {
        assert!(drawing.contains(&format!("--> {state}\n")), "{state} is never entered");
        assert!(drawing.contains(&format!("    {state} -->")), "{state} is never left");
    }
}

/// `UPDATE_DOCS=1 cargo test -p holdfast-model` writes the drawing anew.
#[test]
fn the_docs_draw_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/provisioning.md");
    let page = std::fs::read_to_string(path).expect("docs/provisioning.md");
    let (head, rest) = page.split_once("```mermaid\n").expect("a mermaid block");
    let (drawn, tail) = rest.split_once("```").expect("the block's end");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{head}```mermaid\n{}```{tail}", mermaid())).expect("written");
        return;
    }
    assert_eq!(drawn, mermaid(), "run: UPDATE_DOCS=1 cargo test -p holdfast-model");
}
