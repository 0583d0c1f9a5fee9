//! `holdfast dev …`: the development network, for newcomers, tests and replicas on PostgreSQL.

mod dns;
mod fault;
mod net;

use std::path::PathBuf;

use clap::Subcommand;
use holdfast_devnet::{Devnet, DevnetConfig, Error};

use crate::{
    client::{Api, Found},
    environment::Environment,
    failure::{Failure, chain},
    output::{Format, Output},
};

/// The development network.
#[derive(Debug, clap::Args)]
pub(crate) struct DevArgs {
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Debug, Subcommand)]
enum Noun {
    /// Run the embedded CA and DNS zone by themselves, until told to end
    Net(net::NetArgs),
    /// The DNS zone: what a customer would do at a registrar
    Dns(dns::DnsArgs),
    /// The embedded CA's faults
    Fault(fault::FaultArgs),
}

/// Does it.
pub(crate) async fn run(args: DevArgs, environment: &Environment) -> Result<(), Failure> {
    match args.noun {
        Noun::Net(net) => net::run(net, environment).await,
        Noun::Dns(dns) => dns::run(dns, environment).await,
        Noun::Fault(fault) => fault::run(fault, environment).await,
    }
}

/// Starts a network, or says in a sentence why not.
pub(crate) async fn start_network(config: DevnetConfig) -> Result<Devnet, Failure> {
    Devnet::start(config).await.map_err(|error| {
        let why = chain(&error);
        match error {
            Error::Dns { .. } => Failure::failed(format!(
                "{why}; stop what uses that port, or choose another with --dns."
            )),
            _ => Failure::failed(format!("{why}.")),
        }
    })
}

/// How the development network is found.
#[derive(Debug, clap::Args)]
struct NetworkArgs {
    /// The data directory of `holdfast up` or `holdfast dev net`
    #[arg(
        long,
        global = true,
        env = "HOLDFAST_DATA",
        value_name = "DIR",
        default_value = "holdfast-data",
        help_heading = "Network"
    )]
    data: PathBuf,
    /// How results are written
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Table, help_heading = "Network")]
    output: Format,
}

impl NetworkArgs {
    /// The CA's control interface.
    fn api(&self) -> Result<Api, Failure> {
        let data = self.data.display();
        let Some(found) = Found::read(&self.data)? else {
            return Err(Failure::unreachable(format!(
                "No development network: {data} holds no running `holdfast up` or `holdfast dev net`; start one, or name its directory with --data."
            )));
        };
        let root = std::fs::read(&found.root_certificate).map_err(|error| {
            let root = found.root_certificate.display();
            Failure::failed(format!("{root} cannot be read ({error}); start `holdfast up` again."))
        })?;
        Api::without_token(&found.ca, Some(root))
    }

    fn output(&self, environment: &Environment) -> Output {
        Output::new(self.output, environment)
    }
}
