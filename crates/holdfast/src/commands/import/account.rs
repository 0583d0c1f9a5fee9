//! An existing ACME account, brought along by its key: over the API, or straight into the database before the first replica starts,
//! which makes an account of its own where it finds none.

use std::path::Path;

use holdfast_acme::account_key;
use holdfast_store::{NewAccount, Secret};
use serde_json::{Value, json};

use crate::{
    client::Api,
    config::Config,
    failure::{Failure, chain},
    output::Output,
    wiring,
};

/// Hands the key over; the server refuses it when it has an account already.
pub(super) async fn import(
    api: &Api,
    output: Output,
    file: &Path,
    dry_run: bool,
) -> Result<(), Failure> {
    let key = read(file)?;
    if dry_run {
        output.line(format!("Would import the account key {}.", file.display()));
        return Ok(());
    }
    let kept = api.post("/v1/acme/account", Some(&json!({ "key": key }))).await?;
    let directory = kept.get("directory").and_then(Value::as_str).unwrap_or_default();
    tell(output, directory);
    Ok(())
}

/// Keeps the key in the database itself.
pub(super) async fn keep(config: &Config, output: Output, file: &Path) -> Result<(), Failure> {
    let key = account_key(&Secret::from(read(file)?))
        .map_err(|error| Failure::failed(format!("{}: {}.", file.display(), chain(&error))))?;
    let store = wiring::store::open(config).await?;
    let directory = config.acme.directory.to_string();
    let new = NewAccount { directory, key, email: config.acme.email.clone() };
    // Whoever was first has made it; the same key again is the same account.
    let present = store.journal_account(&new).await.map_err(wiring::store::failed)?;
    wiring::store::close(&store).await;
    if present.key.expose() != new.key.expose() {
        return Err(Failure::failed(format!(
            "An account at {} is in use already, with another key; go on with it, or import this key into a database that no replica has used.",
            new.directory
        )));
    }
    tell(output, &new.directory);
    Ok(())
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        Failure::usage(format!(
            "--acme-account {file} cannot be read ({error}); name a PEM or JWK file."
        ))
    })
}

fn tell(output: Output, directory: &str) {
    if output.is_json() {
        output.json(&json!({ "directory": directory }));
        return;
    }
    let style = output.style();
    output.line(format!("{} The account key is kept for {directory}.", style.good("✓")));
}
