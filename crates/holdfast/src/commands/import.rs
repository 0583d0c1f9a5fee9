//! `holdfast import`: an operator's existing certificates, brought along as they are.
//!
//! A source gives what it would serve for which name; everything is then sent in batches, each item with an idempotency key made of
//! its name, so that the same command again goes on where the first one ended. No certificate is ordered.

mod account;
mod crt_list;
mod csv;
mod entry;
mod pem;
mod send;
mod source;

use std::path::PathBuf;

use clap::ArgGroup;

use self::{entry::Shared, send::Sending, source::Kind};
use crate::{
    client::{Api, ClientArgs},
    config::Config,
    environment::Environment,
    failure::Failure,
    output::Output,
};

/// Existing certificates.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["path", "acme_account"])))]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// What FILE is: a HAProxy crt-list, a directory of PEM files, or a CSV file
    #[arg(long, value_enum, value_name = "KIND", requires = "path")]
    from: Option<Kind>,
    /// The crt-list, the directory or the CSV file
    #[arg(value_name = "FILE", requires = "from")]
    path: Option<PathBuf>,
    /// The key of an existing ACME account (PEM or JWK), to be used from now on
    #[arg(long, value_name = "KEY")]
    acme_account: Option<PathBuf>,
    /// Keep the account's key straight in the database of this configuration, before the first replica starts
    #[arg(long, value_name = "FILE", requires = "acme_account", conflicts_with = "path")]
    config: Option<PathBuf>,
    /// Where relative file names begin (HAProxy's crt-base); where the list itself is, without it
    #[arg(long, value_name = "DIR", requires = "path")]
    base: Option<PathBuf>,
    /// Whose all of them are
    #[arg(long, requires = "path")]
    tenant: Option<String>,
    /// Which edges serve all of them; the server's default group, without it
    #[arg(long, value_name = "GROUP", requires = "path")]
    edge_group: Option<String>,
    /// Only say what would happen
    #[arg(long, requires = "path")]
    dry_run: bool,
}

/// Does it.
pub(crate) async fn run(args: ImportArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    if let (Some(config), Some(key)) = (&args.config, &args.acme_account) {
        return account::keep(&Config::load(config, environment)?, output, key).await;
    }
    let found = match (args.from, &args.path) {
        (Some(kind), Some(path)) => Some(source::read(kind, path, args.base.as_deref())?),
        _ => None,
    };
    let api = Api::find(&args.client)?;
    if let Some(key) = &args.acme_account {
        account::import(&api, output, key, args.dry_run).await?;
    }
    let Some(found) = found else { return Ok(()) };
    let shared = Shared { tenant: args.tenant, edge_group: args.edge_group };
    Sending::new(&api, output, args.dry_run).all(found, &shared).await
}
