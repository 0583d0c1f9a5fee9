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
    /// Issues for names that are new, and renews others that are stored.
    pub(super) async fn work(&mut self, api: &Api) -> Result<()> {
        self.works += 1;
        let prefix = format!("w{}-", self.works);
        let names: Vec<_> =
            (0..CERTIFICATES).map(|n| format!("{prefix}n{n}.{}", self.suffix)).collect();
        let took = api.provision(&prefix, &names, PATIENCE).await?;
        self.samples.issued_rate.push(f64::from(CERTIFICATES) / took.as_secs_f64());
        let names = renewed(self.works, self.size).map(|n| format!("d{n:06}.{}", self.suffix));
        let names: Vec<_> = names.collect();
        ensure!(!names.is_empty(), "there is nothing to renew among {} domains", self.size);
        let took = renew(api, &names).await?;
        self.samples.renewed_rate.push(names.len() as f64 / took.as_secs_f64());
        Ok(())
    }
}

/// The numbers of those that a run renews, from the first run on: others than the run before, as far as there are others, and from
/// the beginning again after the last.
fn renewed(run: u32, size: u32) -> impl Iterator<Item = u32> {
    let others = size.saturating_sub(1);
    let first = u64::from(run.saturating_sub(1)) * u64::from(CERTIFICATES);
    (0..CERTIFICATES.min(others)).map(move |n| {
        let place = (first + u64::from(n)) % u64::from(others);
        1 + u32::try_from(place).unwrap_or(0)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_renews_as_many() {
        for (size, each) in [(1_000, 300), (100_000, 300), (200, 199)] {
            for run in 1..=9 {
                let mut numbers: Vec<_> = renewed(run, size).collect();
                assert!(numbers.iter().all(|n| (1..size).contains(n)), "{run} of {size}");
                numbers.sort_unstable();
                numbers.dedup();
                assert_eq!(numbers.len(), each, "{run} of {size}");
            }
        }
        let first: Vec<_> = renewed(1, 1_000).collect();
        assert!(renewed(2, 1_000).all(|n| !first.contains(&n)));
        assert_eq!(renewed(5, 1).count(), 0);
    }
}
