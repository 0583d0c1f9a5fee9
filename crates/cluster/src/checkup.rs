//! What is wrong with a Redis that is to keep leases.

use std::time::Duration;

use holdfast_lease::store::redis::RedisAddress;
use redis::AsyncConnectionConfig;

use crate::task::chain;

/// Longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(3);

/// What a Redis says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisFacts {
    /// Does it remember anything across a restart?
    pub persistent: bool,
    /// Which keys it throws away when its memory is full; `noeviction`: none.
    pub eviction: String,
}

/// Asks the Redis server that takes writes what it does with what it is told to keep.
///
/// # Errors
/// With its own words when it cannot be asked.
pub async fn redis_facts(address: &RedisAddress) -> Result<RedisFacts, String> {
    let told = |error: redis::RedisError| error.to_string();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(LIMIT))
        .set_response_timeout(Some(LIMIT));
    let client = address.primary(LIMIT).await.map_err(|error| chain(&error))?;
    let mut connection =
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(told)?;
    let info: String = redis::cmd("INFO").query_async(&mut connection).await.map_err(told)?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    };
    // A managed Redis may not tell its configuration; then the append-only file alone counts.
    let save: Vec<String> = redis::cmd("CONFIG")
        .arg("GET")
        .arg("save")
        .query_async(&mut connection)
        .await
        .unwrap_or_default();
    let appends = field("aof_enabled").is_some_and(|on| on == "1");
    let saves = save.get(1).is_some_and(|points| !points.is_empty());
    Ok(RedisFacts {
        persistent: appends || saves,
        eviction: field("maxmemory_policy").unwrap_or_else(|| "noeviction".to_owned()),
    })
}
