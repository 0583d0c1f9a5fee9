//! `holdfast server`: one replica of the control plane.

use std::path::PathBuf;

use crate::{
    config::{Config, Role},
    environment::Environment,
    failure::Failure,
    log, signals,
    wiring::{
        instance,
        replica::{Plan, policy},
        starting, store,
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
    /// Say whether the configuration is good and what it means, and start nothing
    #[arg(long)]
    check: bool,
}

/// Runs until it is told to end.
pub(crate) async fn run(args: ServerArgs, environment: &Environment) -> Result<(), Failure> {
    let config = Config::load(&args.config, environment)?;
    if args.check {
        print!("{}", understood(&args, &config, environment));
        return Ok(());
    }
    log::to_stderr(&config.log);
    let shutdown = signals::shutdown()?;
    let (role, instance) =
        (args.role.unwrap_or(config.server.role), instance::id(&config, environment));
    let store = tokio::select! {
        opened = starting::begin(&config, &instance) => opened?,
        () = shutdown.cancelled() => return Ok(()),
    };
    tracing::info!(%instance, ?role, url = config.server.reached_at(), database = %config.database.url, "starting");
    let (policy, listen) = (policy(&config), config.server.listen);
    let plan = Plan { config, role, policy, instance, store: store.clone(), shutdown };
    let replica = plan.start().await?;
    tracing::info!(%listen, "ready");
    let ended = replica.ended().await;
    store::close_after(&store, &ended).await;
    ended?;
    tracing::info!("ended in order");
    Ok(())
}

/// What a good configuration means, without a secret in it.
fn understood(args: &ServerArgs, config: &Config, environment: &Environment) -> String {
    let lines = [
        ("instance", instance::id(config, environment)),
        ("role", format!("{:?}", args.role.unwrap_or(config.server.role)).to_lowercase()),
        ("listens", config.server.listen.to_string()),
        ("reached at", config.server.reached_at()),
        ("drains", format!("{} s", config.server.drain_seconds)),
        ("database", config.database.url.to_string()),
        ("leases", format!("{:?}", config.coordination.backend).to_lowercase()),
        ("CA", config.acme.directory.to_string()),
        ("edge", config.edge.in_words()),
    ];
    let lines = lines.map(|(what, value)| format!("  {what:<11} {value}\n"));
    let without = config.edge.without_http();
    let note = without.map(|note| format!("Note: {}. {}\n", note.what, note.fix));
    format!("{} is good.\n{}{}", args.config.display(), lines.concat(), note.unwrap_or_default())
}
