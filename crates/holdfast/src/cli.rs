//! The words of the command line.

use clap::{Parser, Subcommand};

use crate::commands::{
    agent::AgentArgs,
    backup::{BackupArgs, RestoreArgs},
    ca::CaArgs,
    dev::DevArgs,
    doctor::DoctorArgs,
    domain::DomainArgs,
    edge::EdgeArgs,
    import::ImportArgs,
    key::KeyArgs,
    lease::LeaseArgs,
    migrate::MigrateArgs,
    replica::{ReplicaArgs, TaskArgs},
    restored::RestoredArgs,
    server::ServerArgs,
    token::TokenArgs,
    up::UpArgs,
    webhook::WebhookArgs,
};

/// Custom domains and their TLS certificates: from CNAME to HTTPS, and renewed for ever.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Everything on this machine, for development: control plane, CA, DNS zone and edge
    Up(UpArgs),
    /// Custom domains: add, list, explain, renew, remove
    Domain(DomainArgs),
    /// API tokens: create, list, revoke
    Token(TokenArgs),
    /// The edges that serve certificates: list, show, adopt
    Edge(EdgeArgs),
    /// Bring existing certificates along: from HAProxy, a directory of PEM files or a CSV file
    Import(ImportArgs),
    /// CAs: list, show, pause, resume; the account there
    Ca(CaArgs),
    /// The keys that secrets are sealed under
    Key(KeyArgs),
    /// The replicas of the control plane
    Replica(ReplicaArgs),
    /// Leases: who holds what, since when, and taking one away
    Lease(LeaseArgs),
    /// The work that one replica does for all
    Task(TaskArgs),
    /// Webhooks: who is told of what happens, and whether they heard
    Webhook(WebhookArgs),
    /// Run one replica of the control plane
    Server(ServerArgs),
    /// Run the agent beside one proxy: certificates in, what it serves out
    Agent(AgentArgs),
    /// Bring the database's schema up to date
    Migrate(MigrateArgs),
    /// Say what is wrong with this installation, each with its fix
    Doctor(DoctorArgs),
    /// Copy an SQLite database, or the one of `holdfast up`, into a file, also while it is in use
    Backup(BackupArgs),
    /// Put a backup in the place of an SQLite database, or of the one of `holdfast up`
    Restore(RestoreArgs),
    /// Tell the control plane that its database was restored from a backup
    Restored(RestoredArgs),
    /// The development network: its DNS zone, its CA's faults, or all of it by itself
    Dev(DevArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_words_make_sense() {
        Cli::command().debug_assert();
    }
}
