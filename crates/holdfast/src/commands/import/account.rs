//! An existing ACME account, brought along by its key.

use std::path::Path;

use serde_json::{Value, json};

use crate::{client::Api, failure::Failure, output::Output};

/// Hands the key over; the server refuses it when it has an account already.
pub(super) async fn import(
    api: &Api,
    output: Output,
    file: &Path,
    dry_run: bool,
) -> Result<(), Failure> {
    let key = std::fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        Failure::usage(format!(
            "--acme-account {file} cannot be read ({error}); name a PEM or JWK file."
        ))
    })?;
    if dry_run {
        output.line(format!("Would import the account key {}.", file.display()));
        return Ok(());
    }
    let kept = api.post("/v1/acme/account", Some(&json!({ "key": key }))).await?;
    let directory = kept.get("directory").and_then(Value::as_str).unwrap_or_default();
    if !output.is_json() {
        let style = output.style();
        output.line(format!("{} The account key is kept for {directory}.", style.good("✓")));
    }
    Ok(())
}
