//! `holdfast ca`: the account at the CA.

use clap::Subcommand;
use serde_json::Value;

use crate::{
    client::{Api, ClientArgs},
    environment::Environment,
    failure::Failure,
    output::Output,
};

/// The account at the CA.
#[derive(Debug, clap::Args)]
pub(crate) struct CaArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make another account, in place of one that the CA does not accept any more
    Register,
}

/// Does it.
pub(crate) async fn run(args: CaArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let api = Api::find(&args.client)?;
    match args.verb {
        Verb::Register => register(&api, output).await,
    }
}

async fn register(api: &Api, output: Output) -> Result<(), Failure> {
    let answer = api.post("/v1/keys:register-account", None).await?;
    if output.is_json() {
        output.json(&answer);
        return Ok(());
    }
    let directory = answer.get("directory").and_then(Value::as_str).unwrap_or_default();
    output.line(format!(
        "{} There is a new account at {directory}; orders go on by themselves.",
        output.style().good("✓")
    ));
    Ok(())
}
