//! The cluster, as configured: where leases are kept, and how this replica joins.

use std::time::Duration;

use holdfast_cluster::{Backend, Cluster, Error, Options, RedisAddress, Role, Settings};

use super::replica::Plan;
use crate::{
    config::{self, Config, Coordination},
    failure::{Failure, chain},
};

/// Joins.
pub(crate) async fn join(plan: &Plan) -> Result<Cluster, Failure> {
    let (config, replicas) = (&plan.config, &plan.config.replicas);
    let seconds = |count: u32| Duration::from_secs(count.max(1).into());
    let settings = Settings {
        store: plan.store.clone(),
        instance: plan.instance.clone(),
        url: config.server.reached_at(),
        role: match plan.role {
            config::Role::All => Role::All,
            config::Role::Api => Role::Api,
            config::Role::Worker => Role::Worker,
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        backend: backend(config)?,
        leadership: config.coordination.resource_name.clone(),
        options: options(&config.coordination),
        heartbeat: seconds(replicas.heartbeat_seconds),
        stale: seconds(replicas.stale_seconds),
        prune: seconds(replicas.prune_seconds),
    };
    Cluster::join(settings).await.map_err(failed)
}

/// Does what a first start makes, while no other replica does.
pub(crate) async fn bootstrap<T>(
    config: &Config,
    instance: &str,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    let prefix = &config.coordination.key_prefix;
    holdfast_cluster::bootstrap(&backend(config)?, prefix, instance, work).await.map_err(failed)
}

/// Where leases are kept.
fn backend(config: &Config) -> Result<Backend, Failure> {
    Backend::new(&config.database.url.expose(), redis(&config.coordination)?).map_err(failed)
}

/// The Redis that keeps leases, where one does.
pub(crate) fn redis(coordination: &Coordination) -> Result<Option<RedisAddress>, Failure> {
    let Some(url) = coordination.url.as_ref() else { return Ok(None) };
    let root_certificate = coordination.root_certificate.as_ref().map(|path| {
        std::fs::read(path).map_err(|error| {
            let path = path.display();
            Failure::usage(format!("coordination.root_certificate: {path} cannot be read ({error}); put the root of Redis's certificate there, in PEM, or remove the key."))
        })
    });
    Ok(Some(RedisAddress {
        url: url.expose().to_owned(),
        weak_store: coordination.weak_store,
        root_certificate: root_certificate.transpose()?,
    }))
}

fn options(coordination: &Coordination) -> Options {
    let seconds = |count: u32| Duration::from_secs(count.into());
    let mut options = Options::with_lease(
        seconds(coordination.lease_duration_seconds),
        seconds(coordination.renewal_interval_seconds),
    );
    options.key_prefix.clone_from(&coordination.key_prefix);
    options.enable_detailed_logging = coordination.enable_detailed_logging;
    options
}

/// What went wrong, in one sentence.
pub(crate) fn failed(error: Error) -> Failure {
    match error {
        Error::Store(error) => super::store::failed(error),
        error @ Error::DatabaseLost(_) => Failure::AtOnce(chain(&error)),
        error => Failure::failed(format!("{}.", chain(&error))),
    }
}
