//! `holdfast migrate`: the schema, brought up to date before the servers of a new release start.

use std::path::PathBuf;

use crate::{
    config::Config,
    environment::Environment,
    failure::Failure,
    output::{Format, Output},
    wiring,
};

/// Bring the schema up to date.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// The configuration: TOML or HCL, by its ending
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Does it.
pub(crate) async fn run(args: &MigrateArgs, environment: &Environment) -> Result<(), Failure> {
    let config = Config::load(&args.config, environment)?;
    let store = wiring::starting::saying_waits(wiring::store::open(&config)).await?;
    let (applied, known) = store.schema().await.map_err(wiring::store::failed)?;
    wiring::store::close(&store).await;
    let output = Output::new(Format::Table, environment);
    let newer = if applied > known { ", of a newer release" } else { "" };
    let database = &config.database.url;
    output.line(format!(
        "{} The schema of {database} is at version {applied}{newer}.",
        output.style().good("✓")
    ));
    Ok(())
}
