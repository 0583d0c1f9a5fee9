//! What is done with a server in a walk, and what must be true at its end. Every step can be told again after a crash.

use std::time::Duration;

use bytes::Bytes;
use holdfast_gateway::{
    client::{Client, ClientConfig},
    point::Point,
};
use holdfast_testkit::Pki;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::site::{Died, Site};
use crate::replica::Network;

/// Points that no story passes: the files of the development network, and what only agents do.
pub(crate) const ELSEWHERE: &[Point] = &[
    Point::FILE_DATABASE,
    Point::FILE_EDGE,
    Point::FILE_OTHER,
    Point::EDGE_HAPROXY,
    Point::EDGE_RELOAD,
];

#[derive(Debug, Clone, Copy)]
pub(crate) enum Story {
    /// Added, served, renewed, removed, revoked.
    Life,
    /// The same with a certificate that is brought along.
    Import,
    /// Two names at a CA that takes one order at a time.
    Queue,
    /// Renewed when the CA's window says so.
    Window,
    /// A CA so slow that claims are renewed meanwhile.
    Slow,
    /// The account's key is changed between two certificates, and its contact with the start after the crash.
    Account,
}

/// The contact after the crash.
const NEW_EMAIL: &str = "new@example.com";

/// How far a telling got; a crash goes on from here.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    pub(crate) name: String,
    certificate: Option<(String, String)>,
    id: Option<String>,
    first: Option<String>,
    renewals: u32,
    rotated: bool,
    /// Was there a start after the crash?
    pub(crate) restarted: bool,
}

impl Telling {
    pub(crate) fn new(story: Story, name: String) -> Self {
        let certificate = match story {
            Story::Life | Story::Queue | Story::Window | Story::Slow | Story::Account => None,
            Story::Import => {
                let Pki { chain_pem, key_pem, .. } = Pki::of(&[&name]).unwrap();
                Some((chain_pem, key_pem))
            }
        };
        Self { name, certificate, ..Self::default() }
    }

    /// The other name, of a story with two.
    fn other(&self) -> String {
        format!("other-{}", self.name)
    }
}

impl Story {
    pub(crate) const ALL: [Self; 6] =
        [Self::Life, Self::Import, Self::Queue, Self::Window, Self::Slow, Self::Account];

    /// What is in the environment of the start after the crash.
    pub(crate) fn restarts_with(self) -> Option<(&'static str, String)> {
        matches!(self, Self::Account).then(|| ("HOLDFAST__ACME__EMAIL", NEW_EMAIL.to_owned()))
    }

    pub(crate) const fn is_short_lived(self) -> bool {
        matches!(self, Self::Window)
    }

    /// Is the walk to stop at this point? A short story is walked for its own sake only.
    pub(crate) fn is_about(self, point: &str) -> bool {
        match self {
            Self::Life | Self::Import => true,
            Self::Queue | Self::Window | Self::Slow | Self::Account => {
                self.passes().iter().any(|own| own.name() == point)
            }
        }
    }

    /// The points that a recording of it must show.
    pub(crate) fn passes(self) -> &'static [Point] {
        match self {
            Self::Life => &[
                Point::STORE_ADD_DOMAIN,
                Point::STORE_CLAIM,
                Point::STORE_ADMIT,
                Point::STORE_TRANSITION,
                Point::STORE_WANT,
                Point::STORE_ACCOUNT_JOURNAL,
                Point::STORE_ACCOUNT_REGISTERED,
                Point::STORE_RELEASE_DOMAIN,
                Point::STORE_CHALLENGE_DROP,
                Point::STORE_DEPLOY,
                Point::STORE_OBSERVE,
                Point::ACME_DIRECTORY,
                Point::ACME_NONCE,
                Point::ACME_NEW_ACCOUNT,
                Point::ACME_NEW_ORDER,
                Point::ACME_ORDER,
                Point::ACME_AUTHORIZATION,
                Point::ACME_CHALLENGE,
                Point::ACME_FINALIZE,
                Point::ACME_CERTIFICATE,
                Point::ACME_REVOKE,
                Point::FILE_MASTER_KEY,
                Point::FILE_ADMIN_TOKEN,
            ],
            Self::Import => &[
                Point::STORE_ADD_DOMAIN,
                Point::STORE_CLAIM,
                Point::STORE_TRANSITION,
                Point::STORE_OBSERVE,
                Point::STORE_RELEASE_DOMAIN,
            ],
            Self::Queue => &[Point::STORE_PAUSE],
            Self::Window => &[Point::ACME_RENEWAL_INFO],
            Self::Slow => &[Point::STORE_RENEW_CLAIMS],
            Self::Account => &[
                Point::STORE_ACCOUNT_JOURNAL,
                Point::STORE_ACCOUNT_REGISTERED,
                Point::ACME_ACCOUNT,
                Point::ACME_KEY_CHANGE,
            ],
        }
    }

    /// Makes the CA what the story needs.
    pub(crate) fn unsettle(self, network: &Network) {
        let fault = match self {
            Self::Queue => ["fault", "set", "order-limit", "1/2"],
            Self::Slow => ["fault", "set", "slow-request", "400"],
            Self::Life | Self::Import | Self::Window | Self::Account => return,
        };
        network.run(fault).done();
    }

    /// Tells it from wherever it is to the end.
    pub(crate) async fn tell(self, site: &Site, telling: &mut Telling) -> Result<(), Died> {
        add(site, telling).await?;
        if matches!(self, Self::Queue) {
            let other = json!({"name": telling.other(), "orchestration_id": "other"});
            site.ask(Method::POST, "/v1/domains", Some(&other)).await?;
            active(site, &telling.other()).await?;
        }
        let certificate = active(site, &telling.name).await?;
        let first = telling.first.get_or_insert(certificate).clone();
        match self {
            Self::Life => renew(site, telling, &first).await?,
            Self::Account => {
                rotate(site, telling).await?;
                renew(site, telling, &first).await?;
            }
            Self::Window => other_certificate(site, telling, &first).await?,
            Self::Import | Self::Slow => {}
            Self::Queue => return Ok(()),
        }
        remove(site, telling).await
    }

    /// What must be true afterwards.
    pub(crate) async fn judge(self, site: &Site, network: &Network, telling: &Telling) {
        let end = if matches!(self, Self::Queue) { json!("Active") } else { Value::Null };
        gapless(site, telling.id.as_deref().unwrap(), &end).await;
        assert_eq!(site.count("challenge"), 0, "a challenge was left behind");
        assert!(site.count("acme_account") <= 1, "a second account");
        if matches!(self, Self::Account) {
            assert_eq!(
                site.count("sealed WHERE owner = 'account-next'"),
                0,
                "a change was left half done"
            );
            let told = site.count(&format!("acme_account WHERE email = '{NEW_EMAIL}'"));
            assert_eq!(told, u64::from(telling.restarted), "the contact is not as configured");
        }
        let finalized = finalized(network, &telling.name).await;
        assert!(
            finalized.iter().all(|times| *times <= 1),
            "an order was finalized twice: {finalized:?}"
        );
        let certificates: u64 = finalized.iter().sum();
        // The first, and one for each time a renewal was asked for.
        let wanted = match self {
            Self::Life | Self::Account => 2..=u64::from(1 + telling.renewals) + site.repeated(),
            Self::Import => 0..=0,
            Self::Queue | Self::Slow => 1..=1,
            Self::Window => 2..=u64::MAX,
        };
        assert!(wanted.contains(&certificates), "{certificates} certificates, not {wanted:?}");
    }
}

async fn add(site: &Site, telling: &mut Telling) -> Result<(), Died> {
    let mut body = json!({"name": telling.name, "orchestration_id": "walk"});
    if let Some((chain, key)) = &telling.certificate {
        body["certificate"] = json!({"chain": chain, "key": key});
    }
    if telling.id.is_some() {
        return Ok(());
    }
    let (status, reply) = site.ask(Method::POST, "/v1/domains", Some(&body)).await?;
    assert!(matches!(status, StatusCode::CREATED | StatusCode::OK), "{status} {reply}");
    telling.id = reply["id"].as_str().map(str::to_owned);
    Ok(())
}

/// Waits until it is Active; gives the fingerprint.
async fn active(site: &Site, name: &str) -> Result<String, Died> {
    wait(site, name, |domain| {
        let met = is_served(domain) || !domain["removing_since"].is_null();
        met.then(|| domain["certificate"]["sha256"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

fn is_served(domain: &Value) -> bool {
    domain["state"] == "Active" && domain["serving"]["sha256"] == domain["certificate"]["sha256"]
}

/// Changes the account's key; asked again until it is done, which completes what broke off.
async fn rotate(site: &Site, telling: &mut Telling) -> Result<(), Died> {
    if telling.rotated {
        return Ok(());
    }
    until(site, async || {
        let (status, _) = site.ask(Method::POST, "/v1/keys:rotate-account", None).await?;
        Ok((status == StatusCode::OK).then_some(()))
    })
    .await?;
    telling.rotated = true;
    Ok(())
}

async fn renew(site: &Site, telling: &mut Telling, first: &str) -> Result<(), Died> {
    let path = format!("/v1/domains/{}", telling.name);
    let (status, domain) = site.ask(Method::GET, &path, None).await?;
    let over = status != StatusCode::OK || !domain["removing_since"].is_null();
    if over || domain["certificate"]["sha256"] != *first {
        return Ok(());
    }
    if domain["state"] == "Active" {
        telling.renewals += 1;
        site.ask(Method::POST, &format!("{path}/renew"), None).await?;
    }
    other_certificate(site, telling, first).await
}

async fn other_certificate(site: &Site, telling: &Telling, first: &str) -> Result<(), Died> {
    wait(site, &telling.name, |domain| {
        let other = domain["certificate"]["sha256"] != *first && is_served(domain);
        (other || !domain["removing_since"].is_null()).then_some(())
    })
    .await
}

async fn remove(site: &Site, telling: &Telling) -> Result<(), Died> {
    let path = format!("/v1/domains/{}", telling.id.as_deref().unwrap());
    site.ask(Method::DELETE, &format!("{path}?revoke=true"), None).await?;
    until(site, async || {
        let (status, _) = site.ask(Method::GET, &path, None).await?;
        Ok((status == StatusCode::GONE).then_some(()))
    })
    .await
}

async fn wait<T: Default>(
    site: &Site,
    name: &str,
    met: impl Fn(&Value) -> Option<T>,
) -> Result<T, Died> {
    until(site, async || {
        let (status, domain) = site.ask(Method::GET, &format!("/v1/domains/{name}"), None).await?;
        // Removed already: this part of the story was told before the crash.
        if status == StatusCode::NOT_FOUND {
            return Ok(Some(T::default()));
        }
        // The CA looked while nobody was there to answer it: a person need not wait for the ladder.
        if domain["state"].as_str().is_some_and(|state| state.ends_with("Failed")) {
            site.ask(Method::POST, &format!("/v1/domains/{name}/retry"), None).await?;
        }
        Ok(met(&domain))
    })
    .await
}

/// Polls, because the server may die at any moment; gives up after half a minute.
async fn until<T>(site: &Site, look: impl AsyncFn() -> Result<Option<T>, Died>) -> Result<T, Died> {
    let mut tick = tokio::time::interval(Duration::from_millis(25));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(40);
    while tokio::time::Instant::now() < deadline {
        tick.tick().await;
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if site.is_over() {
            return Err(Died);
        }
    }
    panic!("it does not get there");
}

async fn gapless(site: &Site, id: &str, end: &Value) {
    let (_, history) =
        site.ask(Method::GET, &format!("/v1/domains/{id}/history?limit=1000"), None).await.unwrap();
    let rows = history["items"].as_array().unwrap();
    let mut at = Value::Null;
    for row in rows {
        assert_eq!(row["from"], at, "a gap in the history: {history:#}");
        at = row["to"].clone();
    }
    assert_eq!(at, *end, "the history does not end as the story does: {history:#}");
}

/// How often each order of the name was finalized, says the CA.
async fn finalized(network: &Network, name: &str) -> Vec<u64> {
    let roots = std::fs::read(network.root()).unwrap();
    let client =
        Client::new(ClientConfig { extra_roots_pem: Some(roots), ..ClientConfig::default() })
            .unwrap();
    let url = format!("https://127.0.0.1:{}/dev/orders?name={name}", network.ca);
    let reply = client.send(http::Request::get(url).body(Bytes::new()).unwrap()).await.unwrap();
    let orders: Vec<Value> = serde_json::from_slice(reply.body()).unwrap();
    orders.iter().map(|order| order["finalized"].as_u64().unwrap()).collect()
}
