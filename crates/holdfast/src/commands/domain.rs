//! `holdfast domain …`

mod add;
mod ask;
mod follow;
mod list;
mod show;

use clap::Subcommand;

use crate::{
    client::{Api, ClientArgs},
    environment::Environment,
    failure::Failure,
    output::Output,
};

/// Custom domains.
#[derive(Debug, clap::Args)]
pub(crate) struct DomainArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add a domain: its DNS is checked, a certificate ordered, deployed and seen served
    Add(add::Add),
    /// List domains
    List(list::List),
    /// Show one domain
    Show {
        /// A name or an id
        name: String,
    },
    /// Show what a domain went through, oldest first
    History {
        /// A name, or an id also after its removal
        name: String,
    },
    /// Say why a domain is where it is: cause, fix, who must act, next attempt
    Explain {
        /// A name or an id
        name: String,
    },
    /// Try again now
    Retry(ask::Retry),
    /// Get a new certificate now, for one domain or for all that came from another CA
    Renew(ask::Renew),
    /// Go back to the certificate before, while it is still valid
    Rollback(ask::Rollback),
    /// Remove a domain; its name is free once the edges dropped it
    Remove(ask::Remove),
}

/// Does it.
pub(crate) async fn run(args: DomainArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let api = Api::find(&args.client)?;
    match args.verb {
        Verb::Add(add) => add.run(&api, output).await,
        Verb::List(list) => list.run(&api, output).await,
        Verb::Show { name } => show::show(&api, output, &name).await,
        Verb::History { name } => show::history(&api, output, &name).await,
        Verb::Explain { name } => show::explain(&api, output, &name).await,
        Verb::Retry(retry) => retry.run(&api, output).await,
        Verb::Renew(renew) => renew.run(&api, output).await,
        Verb::Rollback(rollback) => rollback.run(&api, output).await,
        Verb::Remove(remove) => remove.run(&api, output).await,
    }
}
