//! The peers' part of a round: a few certificates each, one after the other as they do it.

use std::time::Duration;

use anyhow::Result;

use crate::figures::Ground;
use crate::network::Network;
use crate::peer::{Caddy, Certbot, Lego, Peer};
use crate::sample::Sample;
use crate::table::Table;

struct Contender {
    peer: Box<dyn Peer>,
    seconds: Sample,
    cpu_ms: Sample,
}

/// lego, certbot and Caddy.
pub(super) struct Others(Vec<Contender>);

impl Others {
    /// Prepares them: accounts are made before anything is measured.
    pub(super) async fn start(network: &Network) -> Result<Self> {
        let mut peers: Vec<Box<dyn Peer>> = vec![
            Box::new(Lego::prepare(network).await?),
            Box::new(Certbot::prepare(network).await?),
        ];
        peers.push(Box::new(Caddy::prepare(network).await?));
        let contend =
            |peer| Contender { peer, seconds: Sample::default(), cpu_ms: Sample::default() };
        Ok(Self(peers.into_iter().map(contend).collect()))
    }

    /// One round of each.
    pub(super) async fn round(&mut self, ground: &Ground, network: &Network) -> Result<()> {
        for contender in &mut self.0 {
            let (count, name) = (contender.peer.certificates(), contender.peer.name());
            let (took, cpu) = contender.peer.issue(network).await?;
            let each = |time: Duration| time.as_secs_f64() / count as f64;
            contender.seconds.push(each(took));
            contender.cpu_ms.push(each(cpu) * 1000.0);
            ground.say(format!("         {name:<10} {:.2} s per certificate", each(took)));
        }
        Ok(())
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(&[
            "same CA, same rounds",
            "at once",
            "seconds per certificate",
            "certificates/s",
            "CPU client",
        ]);
        for Contender { peer, seconds, cpu_ms } in &self.0 {
            table.row([
                peer.name().to_owned(),
                peer.at_once().to_string(),
                seconds.shown(2),
                format!("{:.2}", 1.0 / seconds.median()),
                cpu_ms.shown(0),
            ]);
        }
        table
    }
}
