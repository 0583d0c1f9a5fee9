//! `holdfast key rotate`: a new data key while the servers run, with `--account` a new key of the account at the CA, or with
//! `--config` and `--new-master-key-file` another master key around the data keys.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use holdfast_store::MasterKey;
use serde_json::{Value, json};

use crate::{
    client::{Api, ClientArgs},
    config::Config,
    environment::Environment,
    failure::Failure,
    output::Output,
    wiring,
};

/// Keys that secrets are sealed under.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Seal everything anew under a new key, while the servers run
    Rotate(Rotate),
}

#[derive(Debug, clap::Args)]
struct Rotate {
    /// Change the master key instead, straight on the database of this configuration
    #[arg(long, value_name = "FILE", requires = "new_master_key_file")]
    config: Option<PathBuf>,
    /// The new master key: made there when the file does not exist yet
    #[arg(long, value_name = "FILE", requires = "config")]
    new_master_key_file: Option<PathBuf>,
    /// Change the key of the account at the CA instead
    #[arg(long, conflicts_with = "config")]
    account: bool,
}

/// Does it.
pub(crate) async fn run(args: KeyArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let Verb::Rotate(rotate) = args.verb;
    match (&rotate.config, &rotate.new_master_key_file) {
        (Some(config), Some(file)) => {
            let config = Config::load(config, environment)?;
            rewrap(&config, file, output).await
        }
        _ if rotate.account => change_account_key(&Api::find(&args.client)?, output).await,
        _ => reseal(&Api::find(&args.client)?, output).await,
    }
}

async fn reseal(api: &Api, output: Output) -> Result<(), Failure> {
    let answer = api.post("/v1/keys:rotate", None).await?;
    if output.is_json() {
        output.json(&answer);
        return left(&answer);
    }
    let resealed = answer.get("resealed").and_then(Value::as_u64).unwrap_or_default();
    let complete = answer.get("complete").and_then(Value::as_bool).unwrap_or_default();
    let refused = left(&answer);
    let what = match (complete, &refused) {
        (true, _) => "nothing is left under an older one",
        (false, Err(_)) => "some are left under an older one",
        (false, Ok(())) => "the rest follows by itself",
    };
    output.line(format!(
        "{} {resealed} values are sealed under a new key; {what}.",
        output.style().good("✓")
    ));
    refused
}

/// Names what did not open.
fn left(answer: &Value) -> Result<(), Failure> {
    let count = answer.get("left_count").and_then(Value::as_u64).unwrap_or_default();
    if count == 0 {
        return Ok(());
    }
    let text = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let line = |value: &Value| {
        let of = value.get("name").and_then(Value::as_str).map(|name| format!(" ({name})"));
        format!("  {}:{}{}", text(value, "owner"), text(value, "id"), of.unwrap_or_default())
    };
    let left = answer.get("left").and_then(Value::as_array);
    let mut lines: Vec<_> = left.into_iter().flatten().map(line).collect();
    let shown = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    if count > shown {
        lines.push(format!("  and {} more", count - shown));
    }
    Err(Failure::failed(format!(
        "{count} values do not open and stay as they are; renew the domains among them, and restore the others from a backup:\n{}",
        lines.join("\n")
    )))
}

async fn change_account_key(api: &Api, output: Output) -> Result<(), Failure> {
    let answer = api.post("/v1/keys:rotate-account", None).await?;
    if output.is_json() {
        output.json(&answer);
        return Ok(());
    }
    let directory = answer.get("directory").and_then(Value::as_str).unwrap_or_default();
    output.line(format!(
        "{} The account at {directory} has a new key; nothing else changes.",
        output.style().good("✓")
    ));
    Ok(())
}

async fn rewrap(config: &Config, file: &Path, output: Output) -> Result<(), Failure> {
    let store = wiring::store::open(config).await?;
    let key: MasterKey = wiring::master_key::read_or_make(file)?;
    store.rewrap(&key).await.map_err(wiring::store::failed)?;
    wiring::store::close(&store).await;
    let file = file.display();
    if output.is_json() {
        output.json(&json!({ "master_key_file": file.to_string() }));
        return Ok(());
    }
    output.line(format!("{} The master key is now the one in {file}.", output.style().good("✓")));
    output.line("Name it in [security] master_key_file on every replica and restart them; the old one opens nothing any more.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_open_is_named_and_ends_in_failure() {
        assert!(left(&json!({ "complete": true, "left_count": 0, "left": [] })).is_ok());
        let value = json!({ "owner": "certificate", "id": "0190", "name": "shop.test" });
        let answer =
            json!({ "left_count": 3, "left": [value, { "owner": "order", "id": "0191" }] });
        let said = left(&answer).unwrap_err().to_string();
        for part in ["3 values", "certificate:0190 (shop.test)", "order:0191", "and 1 more"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
