//! Issuance: 500 domains added at once, 64 in flight, beside a bare instant-acme loop at the same CA; once with a CA that
//! takes its time as real ones do, once as fast as this machine goes. lego, certbot and Caddy get a few certificates in the same rounds.

mod others;
mod round;
pub(crate) mod statements;

use anyhow::Result;

use self::others::Others;
use self::round::{Arm, Rounds};
use super::Ground;
use super::site::{Backend, Site};
use crate::bare::BareLoop;
use crate::network::Network;
use crate::replica::EdgeMode;
use crate::table::Table;

const DOMAINS: usize = 500;
const IN_FLIGHT: usize = 64;

/// What a public CA gives one account at once is less; faster than this the machine is measured, not the waiting.
const BARE_RATE: f64 = 60.0;

/// What the CA slows down first when looking for the pace, and how close the pace must be.
const FIRST_DELAY_MS: f64 = 130.0;
const CLOSE_ENOUGH: f64 = 0.05;

struct Stage<'a> {
    ground: &'a Ground,
    network: Network,
    bare: BareLoop,
    sites: Vec<Site>,
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let mut stage = Stage::start(ground).await?;
    let delay = stage.slow_down().await?;
    let slowed = stage.rounds(None).await?;
    stage.network.no_faults().await?;
    let mut others = Others::start(&stage.network).await?;
    let full = stage.rounds(Some(&mut others)).await?;
    // The next one listens where these did.
    stage.sites.clear();
    let statements = statements::count(ground, &stage.network, DOMAINS).await?;
    let mut text = format!(
        "{DOMAINS} domains added by one request, {IN_FLIGHT} in flight, median (lowest–highest) of {} interleaved runs; \
         a ratio is taken within a round. CPU is in ms per certificate, of all threads and processes.\n\n\
         **A CA that takes its time** (`slow-request` {delay:.0} ms, so that the bare loop gives about {BARE_RATE:.0} per second):\n\n",
        ground.runs
    );
    text.push_str(slowed.table().markdown());
    text.push_str("\n**As fast as this machine goes**, all processes on the same cores:\n\n");
    text.push_str(full.table().markdown());
    text.push('\n');
    text.push_str(others.table().markdown());
    text.push('\n');
    text.push_str(&statements);
    Ok(text)
}

impl<'a> Stage<'a> {
    async fn start(ground: &'a Ground) -> Result<Self> {
        let network = Network::start(&ground.holdfast).await?;
        let bare = BareLoop::start(&network).await?;
        let mut sites = Vec::new();
        for backend in Backend::BOTH {
            sites.push(Site::start(&ground.holdfast, &network, backend, EdgeMode::None).await?);
        }
        let stage = Self { ground, network, bare, sites };
        stage.warm_up().await?;
        Ok(stage)
    }

    /// Connections, caches and prepared statements are there from then on, as in a server that has run for a minute.
    async fn warm_up(&self) -> Result<()> {
        self.bare.issue(IN_FLIGHT, IN_FLIGHT).await?;
        self.ground.say("the bare loop is warm");
        for site in &self.sites {
            site.provision(2 * IN_FLIGHT).await?;
            self.ground.say(format!("Holdfast on {} is warm", site.backend.title()));
        }
        Ok(())
    }

    /// Slows the CA down until the bare loop has the pace wanted; by how many milliseconds a request.
    async fn slow_down(&self) -> Result<f64> {
        let mut delay = FIRST_DELAY_MS;
        for _ in 0..5 {
            self.network.fault("slow-request", &format!("{delay:.0}")).await?;
            let took = self.bare.issue(4 * IN_FLIGHT, IN_FLIGHT).await?;
            let rate = 4.0 * IN_FLIGHT as f64 / took.as_secs_f64();
            self.ground.say(format!("slowed by {delay:.0} ms, the bare loop gives {rate:.1}/s"));
            if (rate / BARE_RATE - 1.0).abs() < CLOSE_ENOUGH {
                break;
            }
            delay = (delay * rate / BARE_RATE).round().max(1.0);
        }
        Ok(delay)
    }

    /// All rounds at the CA's present pace. Who goes first changes with each round.
    async fn rounds(&self, mut others: Option<&mut Others>) -> Result<Rounds> {
        let mut rounds = Rounds::default();
        for number in 0..self.ground.runs {
            let mut round = Vec::new();
            for place in 0..=self.sites.len() {
                let turn = (place + number) % (self.sites.len() + 1);
                let arm = match turn.checked_sub(1).and_then(|index| self.sites.get(index)) {
                    None => Arm::bare(&self.bare, &self.network).await?,
                    Some(site) => Arm::holdfast(site, &self.network).await?,
                };
                self.ground.say(format!("round {}: {arm}", number + 1));
                round.push(arm);
            }
            rounds.add(round);
            if let Some(others) = &mut others {
                others.round(self.ground, &self.network).await?;
            }
        }
        Ok(rounds)
    }
}

impl Rounds {
    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "",
            "certificates/s",
            "of the bare loop",
            "CPU client",
            "CPU database",
            "CPU CA",
        ]);
        let none = String::from("–");
        table.row([
            "bare instant-acme loop".to_owned(),
            self.sample(None, |arm| arm.rate).shown(1),
            none.clone(),
            self.sample(None, |arm| arm.client_ms).shown(1),
            none.clone(),
            self.sample(None, |arm| arm.ca_ms).shown(1),
        ]);
        for backend in Backend::BOTH {
            let of = Some(backend);
            let database = self.sample(of, |arm| arm.database_ms).shown(1);
            table.row([
                format!("**Holdfast**, {}", backend.title()),
                self.sample(of, |arm| arm.rate).shown(1),
                format!("**{}**", self.ratio(backend).shown(2)),
                self.sample(of, |arm| arm.client_ms).shown(1),
                if backend == Backend::Sqlite { none.clone() } else { database },
                self.sample(of, |arm| arm.ca_ms).shown(1),
            ]);
        }
        table
    }
}
