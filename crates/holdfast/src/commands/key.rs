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
        return Ok(());
    }
    let resealed = answer.get("resealed").and_then(Value::as_u64).unwrap_or_default();
    let complete = answer.get("complete").and_then(Value::as_bool).unwrap_or_default();
    let what =
        if complete { "nothing is left under an older one" } else { "the rest follows by itself" };
    output.line(format!(
        "{} {resealed} values are sealed under a new key; {what}.",
        output.style().good("✓")
    ));
    Ok(())
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
    let file = file.display();
    if output.is_json() {
        output.json(&json!({ "master_key_file": file.to_string() }));
        return Ok(());
    }
    output.line(format!("{} The master key is now the one in {file}.", output.style().good("✓")));
    output.line("Name it in [security] master_key_file on every replica and restart them; the old one opens nothing any more.");
    Ok(())
}
