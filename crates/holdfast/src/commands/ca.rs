//! `holdfast ca`: the account at the CA.

use std::path::PathBuf;

use clap::Subcommand;
use holdfast_acme::certificate::Pin;
use holdfast_store::{OrderLimits, SharedStore};
use serde_json::{Value, json};

use crate::{
    client::{Api, ClientArgs},
    config::Config,
    environment::Environment,
    failure::Failure,
    output::Output,
    wiring,
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
    /// Forget which issuer the CA's first chain led to: the next chain decides again
    Unpin {
        /// Work straight on the database of this configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

/// Does it.
pub(crate) async fn run(args: CaArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    match args.verb {
        Verb::Register => register(&Api::find(&args.client)?, output).await,
        Verb::Unpin { config } => unpin(&Config::load(&config, environment)?, output).await,
    }
}

/// Straight on the database: who may do that is who may name the roots in its configuration.
async fn unpin(config: &Config, output: Output) -> Result<(), Failure> {
    let store = wiring::store::open(config).await?;
    let directory = config.acme.directory.as_str();
    let done = forget(&store, directory, wiring::ca::limits(&config.acme)).await;
    wiring::store::close(&store).await;
    let pinned = done?;
    if output.is_json() {
        output.json(&json!({ "directory": directory, "pinned": pinned }));
        return Ok(());
    }
    let good = output.style().good("✓");
    output.line(match pinned {
        Some(name) => format!(
            "{good} The CA at {directory} is not held to `{name}` any more: its next chain decides."
        ),
        None => format!("{good} The CA at {directory} was held to no issuer."),
    });
    Ok(())
}

/// Gives the issuer's name.
async fn forget(
    store: &SharedStore,
    directory: &str,
    limits: OrderLimits,
) -> Result<Option<String>, Failure> {
    let account = store.account(directory, limits).await.map_err(wiring::store::failed)?;
    let Some((id, pin)) = account.and_then(|account| Some((account.id, account.pin?))) else {
        return Ok(None);
    };
    store.unpin_issuer(id).await.map_err(wiring::store::failed)?;
    Ok(Some(Pin::parse(&pin).map_or(pin, |pin| pin.name().to_owned())))
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
