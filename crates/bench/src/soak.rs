//! Wears it down: processes are killed at random moments, while domains come, are renewed and go, and the CA makes mistakes.
//! After every while all faults end, everything must come to rest, and what must never be true is looked for.
//!
//! Two installations run at one CA: two replicas on PostgreSQL behind a balancer, and one on SQLite with its own edge.

mod balancer;
mod chance;
mod chaos;
mod check;
mod installation;
mod ledger;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::Instant;

use self::chance::Chance;
use self::chaos::Chaos;
use self::installation::Installation;
use crate::network::Network;
use crate::progress::Progress;

/// Blows between two times of rest.
const BLOWS: usize = 20;

/// How long, and with which chances.
pub struct Soak {
    /// The binary.
    pub holdfast: PathBuf,
    /// For how long new blows are dealt.
    pub minutes: u64,
    /// What all chances follow from; when exactly a process is hit still depends on the machine.
    pub seed: u64,
}

impl Soak {
    /// Runs until the time is over; an error is a promise broken, or a test that could not go on.
    pub async fn run(&self) -> Result<()> {
        let progress = Progress::start();
        progress.part(&format!("soak for {} min, --seed {}", self.minutes, self.seed));
        let mut network = Network::start(&self.holdfast).await?;
        let mut installations = vec![
            Installation::on_postgres(&self.holdfast, &network).await?,
            Installation::on_sqlite(&self.holdfast, &network).await?,
        ];
        let end = Instant::now() + Duration::from_secs(60 * self.minutes);
        let mut chaos = Chaos::new(Chance::new(self.seed));
        for episode in 1.. {
            let lived = async {
                for _ in 0..BLOWS {
                    chaos.blow(&mut network, &mut installations).await?;
                }
                chaos.rest(&mut network, &mut installations).await?;
                check::all(&network, &installations).await
            };
            let found = lived.await.with_context(|| self.story(episode, &installations))?;
            progress.say(format!("episode {episode}: {found}; {chaos}"));
            if Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }

    fn story(&self, episode: usize, installations: &[Installation]) -> String {
        let logs: String = installations.iter().map(Installation::last_words).collect();
        format!("in episode {episode} with --seed {}\n{logs}", self.seed)
    }
}
