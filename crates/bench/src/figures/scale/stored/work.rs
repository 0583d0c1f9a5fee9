//! What issuing and renewing take beside all that is stored and not due: certificates a second, through the built-in edge.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Stored;
use crate::api::{Api, state};

/// Certificates of one run.
const CERTIFICATES: u32 = 300;
/// The longest that all of them may take.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Stored {
    /// Issues for names that are new, and renews them.
    pub(super) async fn work(&mut self, api: &Api) -> Result<()> {
        self.works += 1;
        let prefix = format!("w{}-", self.works);
        let names: Vec<_> =
            (0..CERTIFICATES).map(|n| format!("{prefix}n{n}.{}", self.suffix)).collect();
        let took = api.provision(&prefix, &names, PATIENCE).await?;
        self.samples.issued_rate.push(f64::from(CERTIFICATES) / took.as_secs_f64());
        let took = renew(api, &names).await?;
        self.samples.renewed_rate.push(names.len() as f64 / took.as_secs_f64());
        Ok(())
    }
}

async fn renew(api: &Api, names: &[String]) -> Result<Duration> {
    let mut before = Vec::with_capacity(names.len());
    for name in names {
        before.push(fingerprint(&api.domain(name).await?));
    }
    let (begun, deadline) = (Instant::now(), Instant::now() + PATIENCE);
    for name in names {
        api.web().ask(Method::POST, &format!("/v1/domains/{name}/renew"), None).await?;
    }
    for (name, before) in names.iter().zip(&before) {
        loop {
            let domain = api.domain(name).await?;
            if state(&domain) == "Active" && fingerprint(&domain) != *before {
                break;
            }
            ensure!(Instant::now() < deadline, "{name} was not renewed: {domain}");
            sleep(LOOK_EVERY).await;
        }
    }
    Ok(begun.elapsed())
}

fn fingerprint(domain: &Value) -> Option<String> {
    domain.pointer("/certificate/sha256")?.as_str().map(str::to_owned)
}
