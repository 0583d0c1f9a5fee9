//! `holdfast up`: everything on this machine, nothing to install.
//!
//! It is the same replica as in production, over SQLite, beside a CA and a DNS zone of its own. Only its patience is
//! shorter: whoever tries it out wants to see things happen.

pub(super) mod config;
pub(super) mod hold;
mod welcome;

use std::{net::SocketAddr, path::PathBuf};

use holdfast_devnet::{Devnet, DevnetConfig};

use crate::{
    client::Found,
    commands::dev,
    environment::Environment,
    failure::Failure,
    log,
    output::{Format, Output},
    signals,
    wiring::{instance, replica::Plan, store},
};

/// How many orders the embedded CA keeps; all of them would take most of the memory of many names.
const ORDERS_KEPT: usize = 1_000;

/// Everything on this machine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct UpArgs {
    /// Where everything is kept
    #[arg(long, env = "HOLDFAST_DATA", value_name = "DIR", default_value = "holdfast-data")]
    data: PathBuf,
    /// Where the API listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8600")]
    api: SocketAddr,
    /// Where the edge answers challenges and redirects
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8680")]
    http: SocketAddr,
    /// Where the edge serves the domains
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8643")]
    https: SocketAddr,
    /// Where the embedded CA listens; its ACME directory is https://ADDR/directory
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8614")]
    ca: SocketAddr,
    /// Where the DNS zone answers
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8653")]
    dns: SocketAddr,
}

/// Runs until it is told to end.
pub(crate) async fn run(args: UpArgs, environment: &Environment) -> Result<(), Failure> {
    let held = hold::take(&args.data)?;
    log::to_file(&args.data.join("up.log"))?;
    let shutdown = signals::shutdown()?;
    let devnet = dev::start_network(network(&args)).await?;
    let config = config::make(&args, &devnet)?;
    let (instance, found) = (instance::id(&config, environment), found(&args, &devnet)?);
    let store = store::begin(&config, &instance).await?;
    let (role, policy) = (config.server.role, config::policy());
    let plan = Plan { config, role, policy, instance, store: store.clone(), shutdown };
    let replica = plan.start().await?;
    found.write(&args.data)?;
    welcome::say(&args, &found, Output::new(Format::Table, environment));
    let ended = replica.ended().await;
    store::close_after(&store, &ended).await;
    devnet.shutdown().await;
    drop(held);
    ended
}

fn network(args: &UpArgs) -> DevnetConfig {
    let edge =
        if args.https.ip().is_unspecified() { [127, 0, 0, 1].into() } else { args.https.ip() };
    DevnetConfig {
        ca: args.ca,
        dns: args.dns,
        http_port: args.http.port(),
        tls_port: args.https.port(),
        data: Some(args.data.clone()),
        edge: vec![edge],
        orders_kept: Some(ORDERS_KEPT),
        ..DevnetConfig::default()
    }
}

fn found(args: &UpArgs, devnet: &Devnet) -> Result<Found, Failure> {
    let root = args.data.join(holdfast_devnet::ROOT_FILE);
    let root_certificate = std::path::absolute(&root).map_err(Failure::failed)?;
    Ok(Found {
        pid: std::process::id(),
        api: Some(format!("http://{}", reachable(args.api))),
        http: Some(args.http),
        https: Some(args.https),
        ca: devnet.url(""),
        dns: devnet.dns_address(),
        root_certificate,
    })
}

/// What listens everywhere is reached at the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { [127, 0, 0, 1].into() } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        up: UpArgs,
    }

    /// What a bound does is tested where it is kept; without one, many names would fill the memory.
    #[test]
    fn the_embedded_ca_is_bounded() {
        let args = Line::parse_from(["up"]).up;
        assert_eq!(network(&args).orders_kept, Some(ORDERS_KEPT));
    }
}
