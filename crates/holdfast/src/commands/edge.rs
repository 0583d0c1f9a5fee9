//! `holdfast edge …`

mod adopt;
mod list;
mod remove;
mod show;

use clap::Subcommand;

use crate::{
    client::{Api, ClientArgs},
    environment::Environment,
    failure::Failure,
    output::Output,
};

/// Edges.
#[derive(Debug, clap::Args)]
pub(crate) struct EdgeArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the edges: which live, which are behind, what they complain of
    List,
    /// Show one edge: the names it refuses, the files there that are none of ours
    Show {
        /// The edge's name
        edge: String,
    },
    /// Have an edge take over files of others that serve names of ours
    Adopt(adopt::Adopt),
    /// Forget an edge that is gone for good, and end its tokens: it is not waited for any longer
    Remove(remove::Remove),
}

/// Does it.
pub(crate) async fn run(args: EdgeArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let api = Api::find(&args.client)?;
    match args.verb {
        Verb::List => list::list(&api, output).await,
        Verb::Show { edge } => show::show(&api, output, &edge).await,
        Verb::Adopt(adopt) => adopt.run(&api, output).await,
        Verb::Remove(remove) => remove.run(&api, output).await,
    }
}
