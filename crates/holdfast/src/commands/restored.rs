//! `holdfast restored`: after the database was restored from a backup, nothing may go back.

use std::path::PathBuf;

use serde_json::json;

use crate::{
    config::Config,
    environment::Environment,
    failure::Failure,
    output::{Format, Output},
    wiring,
};

/// Tell that the database was restored.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoredArgs {
    /// The configuration: TOML or HCL, by its ending
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// How the result is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
}

/// Does it.
pub(crate) async fn run(args: &RestoredArgs, environment: &Environment) -> Result<(), Failure> {
    let config = Config::load(&args.config, environment)?;
    let store = wiring::store::open(&config).await?;
    let restored = store.restored().await.map_err(wiring::store::failed)?;
    let output = Output::new(args.output, environment);
    if output.is_json() {
        output.json(&json!({
            "epoch": restored.epoch, "orders": restored.orders, "deployments": restored.deployments,
        }));
        return Ok(());
    }
    let style = output.style();
    output.line(format!(
        "{} Revisions are in epoch {} now; edges list anew.",
        style.good("✓"),
        restored.epoch
    ));
    output.line(format!("  {} open orders are looked at anew at the CA.", restored.orders));
    output.line(format!("  {} certificates are deployed and seen anew.", restored.deployments));
    output.line("Start the servers.");
    Ok(())
}
