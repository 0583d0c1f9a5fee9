//! `holdfast server`: one replica of the control plane.

use std::path::PathBuf;

use crate::{
    config::{Config, Role},
    environment::Environment,
    failure::Failure,
    log, signals,
    wiring::{
        admin_token, instance,
        replica::{Plan, policy},
        store,
    },
};

/// Run one replica.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The configuration: TOML or HCL, by its ending
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// What it does, instead of what the configuration says
    #[arg(long, value_enum)]
    role: Option<Role>,
}

/// Runs until it is told to end.
pub(crate) async fn run(args: ServerArgs, environment: &Environment) -> Result<(), Failure> {
    let config = Config::load(&args.config, environment)?;
    log::to_stderr(&config.log);
    let shutdown = signals::shutdown()?;
    let store = tokio::select! {
        opened = store::open_patiently(&config) => opened?,
        () = shutdown.cancelled() => return Ok(()),
    };
    admin_token::ensure(&store, &config.security).await?;
    let (role, instance) =
        (args.role.unwrap_or(config.server.role), instance::id(&config, environment));
    tracing::info!(%instance, ?role, url = config.server.reached_at(), database = %config.database.url, "starting");
    let (policy, listen) = (policy(&config), config.server.listen);
    let replica = Plan { config, role, policy, instance, store, shutdown }.start().await?;
    tracing::info!(%listen, "ready");
    replica.ended().await?;
    tracing::info!("ended in order");
    Ok(())
}
