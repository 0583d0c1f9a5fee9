//! `holdfast dev net`: the embedded CA and zone alone, for tests and for replicas on PostgreSQL.

use std::{net::SocketAddr, path::PathBuf};

use holdfast_devnet::{Devnet, DevnetConfig};

use crate::{
    client::Found,
    commands::up::hold,
    environment::Environment,
    failure::Failure,
    log,
    output::{Format, Output},
    signals,
};

/// The development network alone.
#[derive(Debug, clap::Args)]
pub(super) struct NetArgs {
    /// Where the embedded CA listens; its ACME directory is https://ADDR/directory
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8614")]
    ca: SocketAddr,
    /// Where the DNS zone answers
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8653")]
    dns: SocketAddr,
    /// The port HTTP-01 challenges are fetched from, at the address the zone gives
    #[arg(long, value_name = "PORT", default_value_t = 8680)]
    http_port: u16,
    /// The port TLS-ALPN-01 challenges are asked on, at the address the zone gives
    #[arg(long, value_name = "PORT", default_value_t = 8643)]
    tls_port: u16,
    /// Where its keys and records are kept
    #[arg(long, env = "HOLDFAST_DATA", value_name = "DIR", default_value = "holdfast-data")]
    data: PathBuf,
}

/// Runs until it is told to end.
pub(super) async fn run(args: NetArgs, environment: &Environment) -> Result<(), Failure> {
    let held = hold::take(&args.data)?;
    log::to_file(&args.data.join("net.log"))?;
    let shutdown = signals::shutdown()?;
    let config = DevnetConfig {
        ca: args.ca,
        dns: args.dns,
        http_port: args.http_port,
        tls_port: args.tls_port,
        data: Some(args.data.clone()),
        ..DevnetConfig::default()
    };
    let devnet = super::start_network(config).await?;
    let root = args.data.join(holdfast_devnet::ROOT_FILE);
    let found = Found {
        pid: std::process::id(),
        api: None,
        http: None,
        https: None,
        ca: devnet.url(""),
        dns: devnet.dns_address(),
        root_certificate: std::path::absolute(&root).map_err(Failure::failed)?,
    };
    found.write(&args.data)?;
    say(&args, &devnet, Output::new(Format::Table, environment));
    shutdown.cancelled().await;
    devnet.shutdown().await;
    drop(held);
    Ok(())
}

fn say(args: &NetArgs, devnet: &Devnet, output: Output) {
    let (style, data) = (output.style(), args.data.display());
    output.line(format!(
        "{} It is for development: it certifies whatever its own DNS zone says.",
        style.bold("The development network is up.")
    ));
    output.line("");
    let entry = |name: &str, place: &str, note: &str| {
        output.line(format!("  {name:<4} {place:<38} {}", style.dim(note)).trim_end());
    };
    entry("CA", &devnet.directory_url(), &format!("root in {data}/dev-ca.pem"));
    entry(
        "DNS",
        &devnet.dns_address().to_string(),
        "every name under .test leads to edge.holdfast.test",
    );
    entry("log", &format!("{data}/net.log"), "");
    output.line("");
    output.line(style.dim("Ctrl-C ends it."));
}
