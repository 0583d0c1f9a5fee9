//! What each word of the command line does, a file per noun.

pub(crate) mod agent;
pub(crate) mod backup;
pub(crate) mod ca;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod domain;
pub(crate) mod edge;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod lease;
pub(crate) mod migrate;
pub(crate) mod replica;
pub(crate) mod restored;
pub(crate) mod server;
pub(crate) mod token;
pub(crate) mod up;
pub(crate) mod webhook;

use crate::{
    cli::{Cli, Command},
    environment::Environment,
    failure::Failure,
};

/// Does what was asked.
pub(crate) async fn run(cli: Cli, environment: &Environment) -> Result<(), Failure> {
    match cli.command {
        Command::Up(args) => up::run(args, environment).await,
        Command::Domain(args) => domain::run(args, environment).await,
        Command::Token(args) => token::run(args, environment).await,
        Command::Edge(args) => edge::run(args, environment).await,
        Command::Import(args) => import::run(args, environment).await,
        Command::Ca(args) => ca::run(args, environment).await,
        Command::Key(args) => key::run(args, environment).await,
        Command::Replica(args) => replica::run(args, environment).await,
        Command::Lease(args) => lease::run(args, environment).await,
        Command::Task(args) => replica::tasks(args, environment).await,
        Command::Webhook(args) => webhook::run(args, environment).await,
        Command::Server(args) => server::run(args, environment).await,
        Command::Agent(args) => agent::run(args, environment).await,
        Command::Migrate(args) => migrate::run(&args, environment).await,
        Command::Doctor(args) => doctor::run(args, environment).await,
        Command::Backup(args) => backup::back_up(&args, environment).await,
        Command::Restore(args) => backup::restore(&args, environment).await,
        Command::Restored(args) => restored::run(&args, environment).await,
        Command::Dev(args) => dev::run(args, environment).await,
    }
}
