//! Redis as it is deployed: with passwords, TLS, behind Sentinels, in a Cluster; and what is said when it will not have us.

use std::error::Error as _;
use std::time::Duration;

use async_trait::async_trait;
use holdfast_lease::conformance::{Harness, run};
use holdfast_lease::store::Store;
use holdfast_lease::store::redis::{RedisAddress, RedisStore};
use holdfast_lease::{Error, Health, Wish};
use holdfast_testkit::{Redis, RedisCluster, RedisSentinels, RedisTls};

use crate::ground::{elector, name, quick, until};

const LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct InRedis(pub(crate) RedisAddress);

#[async_trait]
impl Harness for InRedis {
    async fn store(&self) -> Box<dyn Store> {
        Box::new(RedisStore::new(self.0.clone(), "holdfast:leader:", LIMIT).unwrap())
    }
}

async fn conforms(address: RedisAddress) {
    let failures = run(&InRedis(address)).await;
    assert!(failures.is_empty(), "{failures:#?}");
}

fn weak(url: String) -> RedisAddress {
    RedisAddress { weak_store: true, ..RedisAddress::new(url) }
}

/// What is said of the first request, with all its causes.
async fn refusal(address: RedisAddress) -> String {
    let mut store = RedisStore::new(address, "lease:", LIMIT).unwrap();
    let refused = store.look(&[name("sweep")]).await.unwrap_err();
    let cause = refused.source().map(ToString::to_string).unwrap_or_default();
    format!("{refused}: {cause}")
}

#[tokio::test]
async fn one_server_conforms() {
    let redis = Redis::start().await.unwrap();
    conforms(RedisAddress::new(redis.url())).await;
}

#[tokio::test]
async fn a_password_opens_and_a_wrong_one_is_told() {
    let redis = Redis::start_with(&["--requirepass", "open sesame"]).await.unwrap();
    let at = |credentials: &str| {
        RedisAddress::new(format!("redis://{credentials}127.0.0.1:{}", redis.port()))
    };
    conforms(at(":open%20sesame@")).await;
    let wrong = refusal(at(":guessed@")).await;
    assert!(wrong.contains("WRONGPASS") || wrong.contains("Password"), "{wrong}");
    let none = refusal(at("")).await;
    assert!(none.contains("NOAUTH") || none.contains("Authentication"), "{none}");
}

#[tokio::test]
async fn a_user_sees_what_its_rules_allow() {
    let rules = "--user worker on >secret ~lease:* &lease:* +@all -@dangerous";
    let rules: Vec<_> = rules.split(' ').collect();
    let redis = Redis::start_with(&rules).await.unwrap();
    let url = format!("redis://worker:secret@127.0.0.1:{}", redis.port());
    let mut store = RedisStore::new(RedisAddress::new(&url), "lease:", LIMIT).unwrap();
    store.look(&[name("sweep")]).await.unwrap();
    let mut elsewhere = RedisStore::new(RedisAddress::new(&url), "other:", LIMIT).unwrap();
    let refused = elsewhere.look(&[name("sweep")]).await.unwrap_err();
    let cause = refused.source().unwrap().to_string();
    assert!(cause.contains("NOPERM") || cause.contains("permission"), "{cause}");
}

#[tokio::test]
async fn tls_conforms_and_an_unknown_root_is_told() {
    let redis = RedisTls::start_with(&["--requirepass", "secret"]).await.unwrap();
    let url = redis.url().replace("://", "://:secret@");
    let root = Some(redis.root_pem().as_bytes().to_vec());
    conforms(RedisAddress { root_certificate: root, ..RedisAddress::new(&url) }).await;
    let refused = refusal(RedisAddress::new(&url)).await.to_lowercase();
    assert!(refused.contains("certificate") || refused.contains("issuer"), "{refused}");
    let plain = refusal(RedisAddress::new(url.replace("rediss:", "redis:"))).await;
    assert!(!plain.is_empty());
}

#[tokio::test]
async fn sentinels_conform_and_lead_to_the_new_primary() {
    let sentinels = RedisSentinels::start().await.unwrap();
    conforms(weak(sentinels.url())).await;
    sentinels.fail_over().await.unwrap();
    conforms(weak(sentinels.url().replace("/mymaster", "/mymaster/1"))).await;
    let unknown = refusal(weak(sentinels.url().replace("mymaster", "nobody"))).await;
    assert!(unknown.to_lowercase().contains("master"), "{unknown}");
}

#[tokio::test]
async fn sentinels_with_tls_and_a_root_of_their_own_conform_and_lead_to_the_new_primary() {
    let sentinels = RedisSentinels::start_with_tls().await.unwrap();
    let root = sentinels.root_pem().map(|root| root.as_bytes().to_vec());
    let known = |url: String| RedisAddress { root_certificate: root.clone(), ..weak(url) };
    conforms(known(sentinels.url())).await;
    let stranger = refusal(weak(sentinels.url())).await.to_lowercase();
    assert!(!stranger.is_empty());
    let store = RedisStore::new(known(sentinels.url()), "lease:", quick().request_timeout).unwrap();
    let ann = elector(Box::new(store), "ann", &quick());
    let lease = ann.contend(&name("sweep"), Wish::default());
    until("a leader that is listening", || lease.is_leader() && ann.health() == Health::Healthy)
        .await;
    sentinels.fail_over().await.unwrap();
    conforms(known(sentinels.url())).await;
    until("a leader on the new primary", || lease.is_leader() && ann.health() == Health::Healthy)
        .await;
}

#[tokio::test]
async fn a_cluster_conforms() {
    let cluster = RedisCluster::start().await.unwrap();
    conforms(weak(cluster.url())).await;
    let elector = elector(
        Box::new(RedisStore::new(weak(cluster.url()), "lease:", quick().request_timeout).unwrap()),
        "ann",
        &quick(),
    );
    let leases = ["a", "b", "c", "d"].map(|lease| elector.contend(&name(lease), Wish::default()));
    until("all leases", || leases.iter().all(holdfast_lease::Leadership::is_leader)).await;
    until("health", || elector.health() == Health::Healthy).await;
}

#[test]
fn a_weak_store_must_be_asked_for_by_name() {
    for url in ["redis+sentinel://127.0.0.1:1/mymaster", "redis+cluster://127.0.0.1:1"] {
        let refused = RedisStore::new(RedisAddress::new(url), "lease:", LIMIT).err().unwrap();
        assert!(matches!(refused, Error::WeakStore(_)), "{refused}");
        assert!(refused.to_string().contains("weak_store = true"), "{refused}");
        RedisStore::new(weak(url.to_owned()), "lease:", LIMIT).unwrap();
    }
}

#[tokio::test]
async fn an_elector_tells_a_wrong_password_in_its_health() {
    let redis = Redis::start_with(&["--requirepass", "secret"]).await.unwrap();
    let store = RedisStore::new(RedisAddress::new(redis.url()), "lease:", LIMIT).unwrap();
    let ann = elector(Box::new(store), "ann", &quick());
    let _lease = ann.contend(&name("sweep"), Wish::default());
    let told = |why: &str| why.contains("NOAUTH") || why.contains("Authentication");
    until("the cause", || match ann.health() {
        Health::Degraded(why) | Health::Unhealthy(why) => told(&why),
        Health::Healthy => false,
    })
    .await;
}
