//! Which Redis: one server, the master that Sentinels agree on, or a Cluster.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo as _, RedisError, RedisResult,
    TlsCertificates, TlsMode,
};

use crate::error::{Error, StoreError};

/// Where leases are kept in Redis.
#[derive(Clone, Debug)]
pub struct RedisAddress {
    /// One server: `redis://[user:password@]host:port[/db]`, or `rediss://` for TLS. Behind Sentinels:
    /// `redis+sentinel://[user:password@]host:port,host:port/service[/db]`. A Cluster:
    /// `redis+cluster://[user:password@]host:port,host:port`. With `rediss+` the servers speak TLS.
    pub url: String,
    /// Accept a store whose acknowledged writes can be lost: what stands behind Sentinels or in a Cluster fails over
    /// asynchronously. Every effect must then be fenced elsewhere.
    pub weak_store: bool,
    /// A root certificate in PEM, instead of the system's, for all servers and Sentinels.
    pub root_certificate: Option<Vec<u8>>,
}

impl RedisAddress {
    /// One server at this URL, or whatever else the URL says, without accepting a weak store.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), weak_store: false, root_certificate: None }
    }

    /// A client of the server that takes writes, for questions that are not about leases. Sentinels are asked who that is.
    pub async fn primary(&self, limit: Duration) -> Result<Client, Error> {
        let mut route = Route::parse(self, limit)?;
        let found = tokio::time::timeout(limit, route.client()).await;
        let late = |_| StoreError::new("find the primary", "it took too long");
        let found = found.map_err(late)?;
        Ok(found.map_err(|error| StoreError::new("find the primary", error))?)
    }
}

pub(super) enum Route {
    One(Client),
    Sentinel(Box<SentinelClient>),
    Cluster { cluster: Box<ClusterClient>, any: Client },
}

pub(super) enum Link {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

fn refused(error: &RedisError) -> Error {
    Error::Address(error.to_string())
}

impl Route {
    pub(super) fn parse(address: &RedisAddress, limit: Duration) -> Result<Self, Error> {
        let tls =
            || TlsCertificates { client_tls: None, root_cert: address.root_certificate.clone() };
        let parts = Parts::parse(&address.url);
        match parts {
            None if address.root_certificate.is_some() => {
                Client::build_with_tls(address.url.as_str(), tls()).map(Self::One)
            }
            None => Client::open(address.url.as_str()).map(Self::One),
            Some(_) if !address.weak_store => {
                return Err(Error::WeakStore("Redis behind asynchronous failover"));
            }
            Some(parts) if parts.kind == "sentinel" => parts.sentinel(&tls()),
            Some(parts) => parts.cluster(tls(), limit),
        }
        .map_err(|error| refused(&error))
    }

    pub(super) async fn connect(&mut self, limit: Duration) -> RedisResult<Link> {
        match self {
            Self::Cluster { cluster, .. } => {
                cluster.get_async_connection().await.map(Link::Cluster)
            }
            one => {
                let client = one.client().await?;
                // A request given up on closes the connection; the limit of the library comes a little later.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(limit))
                    .set_response_timeout(Some(limit * 2));
                client.get_multiplexed_async_connection_with_config(&config).await.map(Link::One)
            }
        }
    }

    /// The server that takes writes; of a Cluster any, for what is told is told everywhere.
    pub(super) async fn client(&mut self) -> RedisResult<Client> {
        match self {
            Self::One(client) | Self::Cluster { any: client, .. } => Ok(client.clone()),
            Self::Sentinel(sentinel) => sentinel.async_get_client().await,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }
}

/// A URL with several hosts: `{scheme}+{kind}://{credentials@}{hosts}/{path}`.
struct Parts<'a> {
    kind: &'a str,
    scheme: &'a str,
    credentials: &'a str,
    hosts: Vec<&'a str>,
    path: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (scheme, kind) = scheme.split_once('+')?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = match host.rfind('@') {
            Some(at) => host.split_at(at + 1),
            None => ("", host),
        };
        matches!(kind, "sentinel" | "cluster").then(|| Self {
            kind,
            scheme,
            credentials,
            hosts: hosts.split(',').collect(),
            path: path.split('/').filter(|part| !part.is_empty()).collect(),
        })
    }

    fn sentinel(&self, tls: &TlsCertificates) -> RedisResult<Route> {
        let (scheme, credentials) = (self.scheme, self.credentials);
        let service = self.path.first().copied().unwrap_or("mymaster");
        let database = self.path.get(1).copied().unwrap_or("0");
        let host = self.hosts.first().copied().unwrap_or_default();
        let node = format!("{scheme}://{credentials}{host}/{database}").into_connection_info()?;
        let sentinel =
            |host: &&str| Ok(format!("{scheme}://{host}").into_connection_info()?.addr().clone());
        let sentinels: RedisResult<Vec<_>> = self.hosts.iter().map(sentinel).collect();
        let master = SentinelServerType::Master;
        let mut builder = SentinelClientBuilder::new(sentinels?, service, master)?;
        let settings = node.redis_settings();
        builder = builder.set_client_to_redis_db(settings.db());
        if let Some(user) = settings.username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = settings.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if scheme == "rediss" {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
            if tls.root_cert.is_some() {
                builder = builder.set_client_to_sentinel_certificates(tls.clone());
                builder = builder.set_client_to_redis_certificates(tls.clone());
            }
        }
        Ok(Route::Sentinel(Box::new(builder.build()?)))
    }

    fn cluster(&self, tls: TlsCertificates, limit: Duration) -> RedisResult<Route> {
        let (scheme, credentials) = (self.scheme, self.credentials);
        let nodes: Vec<_> =
            self.hosts.iter().map(|host| format!("{scheme}://{credentials}{host}")).collect();
        let first = nodes.first().map_or("", String::as_str);
        let any = match &tls.root_cert {
            Some(_) => Client::build_with_tls(first, tls.clone())?,
            None => Client::open(first)?,
        };
        let mut builder = ClusterClient::builder(nodes).connection_timeout(limit).retries(1);
        if tls.root_cert.is_some() {
            builder = builder.certs(tls);
        }
        Ok(Route::Cluster { cluster: Box::new(builder.build()?), any })
    }
}
