//! The blows, and the rest between them.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use tokio::time::{Instant, sleep};

use super::chance::Chance;
use super::installation::{Installation, Storage, is_gone};
use crate::api::{Api, state};
use crate::network::Network;

/// Longest time to come to rest.
const PATIENCE: Duration = Duration::from_secs(240);

/// Most domains alive at once, per installation.
const CROWD: usize = 60;

/// How a fault is drawn: its kind, and from where to where its value may be.
enum Fault {
    Percent(&'static str, u64),
    Number(&'static str, u64, u64),
    Text(&'static str, &'static str),
}

/// Faults after which the same order must still lead to its certificate.
const FAULTS: [Fault; 12] = [
    Fault::Percent("bad-nonce", 50),
    Fault::Percent("server-error", 30),
    Fault::Percent("dropped-reply", 30),
    Fault::Number("unavailable", 1, 3),
    Fault::Number("slow-request", 10, 300),
    Fault::Number("slow-validation", 100, 3_000),
    Fault::Number("processing", 100, 3_000),
    Fault::Text("finalize-error", "*"),
    Fault::Text("order-limit", "30/2"),
    Fault::Text("unauthorized", "*"),
    Fault::Text("dns-servfail", "*"),
    Fault::Text("dns-timeout", "*"),
];

/// Deals blows, and counts them.
pub(super) struct Chaos {
    chance: Chance,
    killed: usize,
    paused: usize,
    crashed: usize,
    asked: usize,
}

impl Chaos {
    pub(super) const fn new(chance: Chance) -> Self {
        Self { chance, killed: 0, paused: 0, crashed: 0, asked: 0 }
    }

    /// People ask for things, the CA fails in its way, and a process is hit.
    pub(super) async fn blow(
        &mut self,
        network: &mut Network,
        installations: &mut [Installation],
    ) -> Result<()> {
        if self.chance.percent(40) {
            self.change_faults(network).await?;
        }
        for installation in installations.iter_mut() {
            for _ in 0..self.chance.within(1..=4) {
                self.ask(installation).await;
            }
        }
        sleep(Duration::from_millis(self.chance.within(0..=1_200))).await;
        match self.chance.within(1..=100) {
            1..=10 => {
                self.crashed += 1;
                network.kill_and_restart().await
            }
            dice => {
                for installation in installations.iter_mut() {
                    self.hit(installation, dice).await?;
                }
                Ok(())
            }
        }
    }

    async fn change_faults(&mut self, network: &Network) -> Result<()> {
        network.no_faults().await?;
        for _ in 0..self.chance.within(0..=3) {
            let (kind, value) = match self.chance.one_of(&FAULTS) {
                None => continue,
                Some(Fault::Text(kind, value)) => (*kind, (*value).to_owned()),
                Some(Fault::Number(kind, from, to)) => {
                    (*kind, self.chance.within(*from..=*to).to_string())
                }
                Some(Fault::Percent(kind, most)) => {
                    (*kind, format!("{}%", self.chance.within(2..=*most)))
                }
            };
            network.fault(kind, &value).await?;
        }
        Ok(())
    }

    /// One request of a person. Whether it is answered does not matter: nothing is certain in a storm.
    async fn ask(&mut self, installation: &mut Installation) {
        let Some(replica) = self.chance.one_of(&installation.replicas) else { return };
        let (api, lasting) = (replica.api().clone(), installation.ledger.lasting());
        self.asked += 1;
        let wish = self.chance.within(1..=100);
        if wish <= 50 && lasting.len() < CROWD {
            let free = installation.ledger.free_names();
            let again = self.chance.one_of(&free).filter(|_| wish <= 15).cloned();
            let name = again.unwrap_or_else(|| installation.new_name());
            let life = installation.ledger.begin(&name);
            installation.add(&api, &life).await.ok();
            return;
        }
        let Some(life) = self.chance.one_of(&lasting) else { return };
        let (method, what) = match wish {
            ..=80 => (Method::POST, "/renew"),
            81..=88 => (Method::POST, "/retry"),
            89..=95 => (Method::DELETE, ""),
            _ => (Method::DELETE, "?revoke=true"),
        };
        if method == Method::DELETE
            && let Some(life) = installation.ledger.life_mut(&life.orchestration)
        {
            life.removed = true;
        }
        api.web().send(method, &format!("/v1/domains/{}{what}", life.name), None).await.ok();
    }

    async fn hit(&mut self, installation: &mut Installation, dice: u64) -> Result<()> {
        if let (Storage::Postgres { server, .. }, 11..=18) = (&mut installation.storage, dice) {
            self.crashed += 1;
            return server.restart().await;
        }
        let last = installation.replicas.len().saturating_sub(1);
        let chosen = usize::try_from(self.chance.within(0..=u64::try_from(last)?))?;
        let Some(replica) = installation.replicas.get_mut(chosen) else { return Ok(()) };
        if dice <= 30 {
            // Longer than a claim lasts: it wakes up believing in work that is another's by then.
            self.paused += 1;
            replica.pause()?;
            sleep(Duration::from_millis(self.chance.within(500..=3_500))).await;
            return replica.resume();
        }
        self.killed += 1;
        replica.kill().await?;
        sleep(Duration::from_millis(self.chance.within(0..=500))).await;
        replica.start_again().await
    }

    /// Faults end; everything asked for must come about.
    pub(super) async fn rest(
        &mut self,
        network: &mut Network,
        installations: &mut [Installation],
    ) -> Result<()> {
        network.no_faults().await?;
        for installation in installations {
            let Some(replica) = installation.replicas.first() else { continue };
            let api = replica.api().clone();
            let deadline = Instant::now() + PATIENCE;
            loop {
                let open = settle(installation, &api).await?;
                if open.is_empty() {
                    break;
                }
                let title = installation.title;
                ensure!(Instant::now() < deadline, "{title} did not come to rest: {open:?}");
                sleep(Duration::from_millis(300)).await;
            }
        }
        Ok(())
    }
}

/// Asks again for what may have got lost; gives what is not as it should be yet.
async fn settle(installation: &mut Installation, api: &Api) -> Result<Vec<String>> {
    let mut open = Vec::new();
    for life in installation.ledger.all().to_vec() {
        let path = format!("/v1/domains/{}", life.name);
        let Some(id) = &life.id else {
            installation.add(api, &life).await?;
            open.push(format!("{} was added", life.name));
            continue;
        };
        if life.gone {
            continue;
        }
        if life.removed {
            if is_gone(api, id).await? {
                if let Some(life) = installation.ledger.life_mut(&life.orchestration) {
                    life.gone = true;
                }
            } else {
                api.web().ask(Method::DELETE, &format!("/v1/domains/{id}"), None).await?;
                open.push(format!("{} is being removed", life.name));
            }
            continue;
        }
        let domain = api.domain(&life.name).await?;
        if state(&domain) != "Active" {
            if state(&domain).ends_with("Failed") {
                api.web().ask(Method::POST, &format!("{path}/retry"), None).await?;
            }
            open.push(format!("{} is {}", life.name, state(&domain)));
        }
    }
    Ok(open)
}

impl fmt::Display for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, paused, crashed, asked, .. } = self;
        write!(
            f,
            "so far {asked} requests, {killed} replicas killed, {paused} paused, {crashed} crashes of CA or database"
        )
    }
}
