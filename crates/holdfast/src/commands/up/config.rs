//! What a replica of `up` is told: the same configuration as in production, made instead of read.

use std::{path::Path, time::Duration};

use holdfast_devnet::Devnet;
use holdfast_model::{Hostname, Policy};

use super::UpArgs;
use crate::{
    config::{
        Acme, Config, Coordination, Database, DatabaseUrl, Dns, Edge, EdgeMode, KeyType, Log,
        Provisioning, Renewal, Replicas, ResolverAddress, Retention, Security, Server, WebUrl,
    },
    failure::Failure,
};

/// Makes it.
pub(super) fn make(args: &UpArgs, devnet: &Devnet) -> Result<Config, Failure> {
    let directory = WebUrl::parse(&devnet.directory_url()).map_err(Failure::failed)?;
    let target = Hostname::parse_host(holdfast_devnet::EDGE).map_err(Failure::failed)?;
    Ok(Config {
        server: Server { listen: args.api, drain_seconds: 0, ..Server::default() },
        database: Database { url: database(&args.data) },
        coordination: Coordination::default(),
        replicas: Replicas { instance_id: Some("up".to_owned()), ..Replicas::default() },
        acme: Acme {
            directory,
            name: None,
            root_certificate: Some(args.data.join(holdfast_devnet::ROOT_FILE)),
            issuer_roots: Some(args.data.join(holdfast_devnet::ROOT_FILE)),
            email: None,
            agree_terms: true,
            // The embedded CA has no limit of its own unless a fault sets one.
            max_new_orders_per_3h: 1_000_000,
            max_orders_in_flight: 64,
            key_type: KeyType::EcdsaP256,
            profile: None,
            eab_key_id: None,
            eab_hmac_key: None,
        },
        dns: Dns {
            targets: vec![target],
            addresses: Vec::new(),
            unique_target: false,
            resolvers: Some(vec![ResolverAddress(devnet.dns_address())]),
            http_proof_port: args.http.port(),
        },
        provisioning: Provisioning::default(),
        renewal: Renewal::default(),
        retention: Retention::default(),
        edge: Edge {
            mode: EdgeMode::Builtin,
            http: Some(args.http),
            https: Some(args.https),
            ..Edge::default()
        },
        security: security(&args.data),
        log: Log::default(),
    })
}

/// The database in a data directory.
pub(crate) fn database(data: &Path) -> DatabaseUrl {
    DatabaseUrl::Sqlite(data.join("holdfast.db"))
}

/// The keys and tokens in a data directory.
pub(crate) fn security(data: &Path) -> Security {
    Security {
        master_key_file: Some(data.join("master.key")),
        admin_token_file: Some(data.join("admin.token")),
        ..Security::default()
    }
}

/// The product's policy with a developer's patience: seconds where customers get minutes.
pub(super) fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.dns.first_delay = Duration::from_millis(250);
    policy.dns.longest_delay = Duration::from_secs(1);
    policy.watch.first_delay = Duration::from_secs(1);
    policy.watch.longest_delay = Duration::from_secs(10);
    policy.ladder.rungs = [2, 5, 15, 60].map(Duration::from_secs).to_vec();
    policy
}
